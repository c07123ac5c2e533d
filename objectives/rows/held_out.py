"""Held-out rows that are trained on as well: an error if all of them are, a warning if some are.

Standard library only.
"""

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.held_out import CONTAINED, TOLD

logger = logging.getLogger(__name__)


def shared(rows: Iterable[Hashable], others: Iterable[Hashable]) -> float:
    """Share of the distinct `rows` that are among `others` as well."""
    different = set(rows)
    return len(different & set(others)) / max(1, len(different))


def check_apart(
    train: Sequence[Hashable], held_out: Sequence[Hashable], place: str, *, key: str = "dev"
) -> None:
    """Checks that neither of two splits contains the other; `key` and `place` name the held-out
    one.

    Raises:
        ObjectiveError: if one does.
    """
    in_train, in_held_out = shared(held_out, train), shared(train, held_out)
    if max(in_train, in_held_out) < CONTAINED:
        return
    found = (
        f"{in_train:.0%} of its rows are training rows"
        if in_train >= CONTAINED
        else f"{in_held_out:.0%} of the training rows are among its rows"
    )
    raise ObjectiveError(
        f"`{key}` must not be trained on, got {place}: {found}; name other rows, or leave `{key}` "
        "out"
    )


def rows_note(splits: Mapping[str, Sequence[Hashable]]) -> str:
    """A line on the splits that share rows with the training data; empty if these rows are few."""
    train = set(splits["train"])
    shares = {name: shared(rows, train) for name, rows in splits.items() if name != "train"}
    told = [f"{share:.0%} of {name}" for name, share in sorted(shares.items()) if share >= TOLD]
    if not told:
        return ""
    return (
        f"training rows are held out as well: {', '.join(told)}; losses on them are too low, so "
        "take these rows out of the training data"
    )


def warn_of_shared(splits: Mapping[str, Sequence[Hashable]]) -> None:
    """Logs the line of `rows_note`, if there is one."""
    if note := rows_note(splits):
        logger.warning("%s", note)
