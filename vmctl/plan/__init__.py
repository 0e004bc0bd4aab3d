"""From what is wanted and what is, to the steps between them. Pure."""
