"""Learning curves to search: planted by formulas, or read from tables of real runs."""
