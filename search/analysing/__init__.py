"""Answers of `fathom analyse` from runs in a file, a folder, MLflow, Optuna, W&B or a run
folder."""
