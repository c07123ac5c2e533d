"""Opens files of runs as tables of names and rows."""
