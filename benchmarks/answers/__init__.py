"""How often the answer is right, and what it costs in tokens."""
