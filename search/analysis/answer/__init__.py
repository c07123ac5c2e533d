"""The answer of a budget: its best depth, the verdict, and the depths that are not ruled out."""
