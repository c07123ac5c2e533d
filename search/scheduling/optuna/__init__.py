"""The trials of a search in Optuna: studies in files, and tables of others' studies."""
