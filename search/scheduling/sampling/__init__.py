"""Optuna's samplers: the default one, which draws depths, and how a search asks any of them."""
