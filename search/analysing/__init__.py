"""Runs that others made, from any source: a file, a folder, MLflow, Optuna, W&B, a run."""
