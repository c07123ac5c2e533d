"""Folders with the runs of others: for each run a log, a table or TensorBoard's event files."""
