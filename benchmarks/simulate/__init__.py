"""Simulated searches: the real decisions on known learning curves, without training."""
