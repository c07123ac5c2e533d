"""Estimates of losses of trainings, shapes and depths: noise, stalls, rates, forecasts."""
