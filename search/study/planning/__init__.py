"""A study becomes budgets, shapes and a plan."""
