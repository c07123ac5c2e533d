"""Files of runs, opened as tables of names and rows."""
