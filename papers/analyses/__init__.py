"""Analyses that papers on depth report beside the optimum."""
