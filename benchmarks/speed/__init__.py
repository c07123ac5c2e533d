"""Measurements of the speed of training and searching, beside other programs."""
