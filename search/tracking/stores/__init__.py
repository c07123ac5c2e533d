"""Stores of MLflow: addresses, keys, trust, artifacts."""
