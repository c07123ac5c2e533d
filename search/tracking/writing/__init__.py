"""The writing of studies to MLflow."""
