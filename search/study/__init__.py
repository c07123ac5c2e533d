"""A study file becomes values, shapes and a plan."""
