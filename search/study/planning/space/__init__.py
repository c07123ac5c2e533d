"""The shapes that meet a budget."""
