"""What vmctl answers: the documents of docs/schemas/, and the same as tables for people."""
