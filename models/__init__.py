"""Transformers and their arithmetic; knows nothing of searching."""
