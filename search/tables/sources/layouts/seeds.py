"""Converts a table with a column of losses for each seed to a row for each seed."""

import re
from collections.abc import Mapping
from dataclasses import replace

from fathom.search.tables.columns.columns import meaning
from fathom.search.tables.open_table import OpenTable

SEEDED = re.compile(
    r"(.*?)[\s_./-]*\(?(?:seed|repeat|replicate|rep|run)[\s_=:#-]*(\d+)\)?", re.IGNORECASE
)
"""Pattern of the loss of a seed: `val_loss_seed0`, `loss (seed 1)` or `seed 2`."""


def by_seed(table: OpenTable, told: Mapping[str, str]) -> OpenTable:
    """The table with a row for each seed, if several columns are each the loss of one seed; any
    other table unchanged."""
    found = {place: SEEDED.fullmatch(name.strip()) for place, name in enumerate(table.names)}
    seeds = {
        place: (match[1] or "loss", match[2])
        for place, match in found.items()
        if match and meaning(match[1] or "loss") == "loss" and "train" not in match[1].lower()
    }
    kept = [place for place in found if place not in seeds]
    known = {told.get(table.names[place]) or meaning(table.names[place]) for place in kept}
    losses = {loss for loss, _ in seeds.values()}
    if len(seeds) < 2 or len(losses) > 1 or known & {"loss", "seed"} or {*told.values()} & {"loss"}:
        return table
    return replace(
        table,
        names=[*(table.names[place] for place in kept), "seed", *losses],
        rows=(
            (line, [*(row[at] for at in kept), seed, row[place]])
            for line, row in table.rows
            for place, (_, seed) in seeds.items()
        ),
    )
