"""The value of a trial at a rung."""

LOOK_BACK = 4
"""At a rung the fall of a loss is measured since a quarter of the tokens: shorter spans drown in
noise."""
