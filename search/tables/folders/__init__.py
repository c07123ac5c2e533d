"""Folders with the runs of others: for each run a log of text, or TensorBoard's event files."""
