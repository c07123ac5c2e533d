"""Answers beside trainings: exhaustive ladders, recipes, other architectures and frameworks."""
