"""A study file as values, with the line of each mistake."""
