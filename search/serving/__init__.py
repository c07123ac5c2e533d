"""Time and memory of an answer: measured here, modelled, or read off a data sheet."""
