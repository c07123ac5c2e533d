"""A table with a column of losses for each seed, as a row for each seed."""

import re
from collections.abc import Mapping
from dataclasses import replace

from fathom.search.tables.columns.columns import meaning
from fathom.search.tables.open_table import OpenTable

SEEDED = re.compile(
    r"(.*?)[\s_./-]*\(?(?:seed|repeat|replicate|rep|run)[\s_=:#-]*(\d+)\)?", re.IGNORECASE
)
"""`val_loss_seed0`, `loss (seed 1)` or `seed 2`: a loss, and a number that tells seeds apart."""


def by_seed(table: OpenTable, told: Mapping[str, str]) -> OpenTable:
    """The table with a row for each of several columns that are the loss of a seed; any other table
    as it is."""
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
