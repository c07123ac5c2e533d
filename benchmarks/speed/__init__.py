"""How fast training and searching are, beside other programs."""
