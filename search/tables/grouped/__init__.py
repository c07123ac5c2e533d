"""Groups the rows of a table into runs, and the runs into trials of a size."""
