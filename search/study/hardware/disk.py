"""The size of a checkpoint on the disk."""

from fathom.models.shape import Shape

NUMBERS = 3
"""Numbers in a checkpoint for each parameter: the weight and at most two moments of the
optimizer."""
BYTES = 4
"""Bytes of each of these numbers."""
BESIDE = 100_000
"""Bytes of a checkpoint apart from its numbers: names, the curve so far, norms of late
gradients."""
RESERVE = 100_000_000
"""Bytes for records, report and MLflow's database."""


def checkpoint_bytes(shape: Shape, *, best_weights: bool = False) -> int:
    """Largest size of a trial's checkpoint; with `best_weights`, it also keeps the best weights so
    far."""
    return (NUMBERS + best_weights) * BYTES * shape.params_total + BESIDE
