"""What columns mean, the values of their cells, and which rows count."""
