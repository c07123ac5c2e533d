"""A run as a page to look at, figures for papers and tables of numbers."""
