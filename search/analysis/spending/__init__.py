"""Decisions on compute, training time and serving, from answers and laws."""
