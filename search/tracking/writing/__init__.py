"""What is written to MLflow."""
