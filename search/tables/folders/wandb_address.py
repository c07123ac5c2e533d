"""Addresses of W&B projects; does not import W&B."""

ADDRESS = "wandb:"
"""Beginning of the address of a project."""


def is_wandb(source: str) -> bool:
    """True for the address of a project of W&B."""
    return source.startswith(ADDRESS)
