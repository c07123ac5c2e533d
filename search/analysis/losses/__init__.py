"""Losses of trainings, of shapes and of depths: noise, stalls, rates, forecasts."""
