"""The answer of a budget: its optimum, verdict and set of depths."""
