"""The output on a terminal: progress while a search runs, and tables of its answers."""
