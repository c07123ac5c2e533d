"""Layer metrics that papers measured, computed from the records of run folders."""

import statistics
from collections.abc import Iterator, Sequence

from fathom.search.records import TrialRecord

LAYERED = {
    "dong2021_rank_collapse": ("rank_ratio",),
    "clark2019_heads": ("attention_entropy", "mass_self", "mass_previous", "previous_token"),
}
"""Paper -> its layer metrics, named as in `models/measure/diagnostics.py`."""
EARLY = "previous_token of the first half"


def early(record: TrialRecord) -> float:
    """Largest share of attention to the previous token among heads of the first half."""
    layers = record.layers["previous_token"]
    return max(layers[: (len(layers) + 1) // 2])


def layer_table(records: Sequence[TrialRecord], names: Sequence[str]) -> Iterator[str]:
    """Yields a table of the deepest shape's layers: mean over trials, lowest and highest value."""
    deepest = max(record.spec.shape.depth for record in records)
    trials = [record.layers for record in records if record.spec.shape.depth == deepest]
    yield f"| layer | {' | '.join(f'`{name}`' for name in names)} |"
    yield f"|---|{'---|' * len(names)}"
    for layer in range(deepest):
        cells = [_course([layers[name][layer] for layers in trials]) for name in names]
        yield f"| {layer + 1} | {' | '.join(cells)} |"


def _course(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2g} ({min(values):.2g} to {max(values):.2g})"
