"""Fits of the curve of loss over depth, and the posterior of the losses."""
