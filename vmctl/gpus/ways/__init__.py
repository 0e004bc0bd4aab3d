"""The ways a share of a GPU is made: one file for each kernel interface, the same few functions in each."""
