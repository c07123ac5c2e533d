"""`fathom export --format NAME`: the best shape as a folder of files for another framework."""

from functools import partial
from pathlib import Path

from fathom.search.export.best import BestShape
from fathom.search.export.formats import model_of, write_folder


def export_folder(
    best: BestShape, name: str, out: Path | None, weights: Path | None, *, nearest: bool
) -> list[str]:
    """Writes the folder for a framework and returns the lines to print.

    Raises:
        ConfigError: if there is no such format, the format has no such model, or the folder exists.
    """
    model = model_of(best, name, nearest=nearest, weights=weights)
    if weights is None:
        return write_folder(model, name, out, None)
    from fathom.search.export.weights import write_weights  # needs torch

    return write_folder(model, name, out, partial(write_weights, model, name, weights))
