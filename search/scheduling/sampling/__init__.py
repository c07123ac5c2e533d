"""Optuna's samplers: the default one, which draws depths, and what it takes to be asked."""
