"""Gains of deeper shapes over the shallowest, seed by seed (Petty et al. 2024, Brown et al. 2022).

Neither paper has a mark that a depth must reach: their claims are of differences at one size.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from scipy.stats import t as student

from fathom.models.shape import Shape
from fathom.search.records import Outcome, TrialRecord
from fathom.search.study.keys.config import StudyConfig

GENERALISED = "exact_match/gen/all"
AS_TRAINED = "exact_match/test/all"
ACCURACY = "accuracy/dev"
LATENCY = "generation_seconds"
LOSS = "loss"

Trials = Mapping[int, Mapping[int, TrialRecord]]
"""Depth -> seed -> a trial that finished."""


def petty_tables(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Tables of text loss by depth, or of exact match by depth and category."""
    trials = trials_of(records)
    if config.objective.name == "language":
        yield from _loss_table(trials)
    else:
        yield from _generalisation_tables(trials)


def _loss_table(trials: Trials) -> Iterator[str]:
    best = min(trials, key=lambda depth: statistics.fmean(_values(trials[depth], LOSS)))
    yield f"| layers | d_ff | d_model / d_ff | loss, each | more than {best} [95 %] |"
    yield "|---|---|---|---|---|"
    for depth, by_seed in trials.items():
        shape = _shape(by_seed)
        gains = gains_of(trials[best], by_seed, LOSS)
        cells = (
            str(depth),
            str(shape.d_ff),
            f"{1 / shape.ff_ratio:.2g}",
            _each(_values(by_seed, LOSS)),
            "-" if depth == best else interval_text(gains, -math.inf),
        )
        yield f"| {' | '.join(cells)} |"


def _generalisation_tables(trials: Trials) -> Iterator[str]:
    yield from _gain_table(trials, GENERALISED)
    yield ""
    yield f"| layers | `{AS_TRAINED}` [95 %] | each |"
    yield "|---|---|---|"
    for depth, by_seed in trials.items():
        values = _values(by_seed, AS_TRAINED)
        yield f"| {depth} | {interval_text(values, 0)} | {_each(values)} |"
    categories = _categories(trials)
    if categories:
        yield ""
        yield f"| category | {' | '.join(f'depth {depth}' for depth in trials)} |"
        yield f"|---|{'---|' * len(trials)}"
    for name in categories:
        means = (statistics.fmean(_values(by_seed, name)) for by_seed in trials.values())
        yield f"| {name.rpartition('/')[2]} | {' | '.join(f'{mean:.3f}' for mean in means)} |"


def accuracy_tables(_config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Tables of accuracy, parameters and milliseconds per text by depth."""
    trials = trials_of(records)
    yield from _gain_table(trials, ACCURACY)
    yield ""
    yield "| layers | parameters | milliseconds a text, median |"
    yield "|---|---|---|"
    for depth, by_seed in trials.items():
        size = _shape(by_seed).params_non_embedding
        yield f"| {depth} | {size:,} | {1000 * statistics.median(_values(by_seed, LATENCY)):.2f} |"


def trials_of(records: Sequence[TrialRecord]) -> Trials:
    """Finished trials by depth and seed, both ascending."""
    found: defaultdict[int, dict[int, TrialRecord]] = defaultdict(dict)
    for record in sorted(records, key=lambda record: (record.spec.shape.depth, record.spec.seed)):
        if record.outcome is Outcome.FINISHED:
            found[record.spec.shape.depth][record.spec.seed] = record
    return found


def _gain_table(trials: Trials, measure: str) -> Iterator[str]:
    first, *_ = trials
    yield f"| layers | d_ff | loss, each | `{measure}` [95 %] | each | more than {first} [95 %] |"
    yield "|---|---|---|---|---|---|"
    for depth, by_seed in trials.items():
        values = _values(by_seed, measure)
        gains = gains_of(trials[first], by_seed, measure)
        cells = (
            str(depth),
            str(_shape(by_seed).d_ff),
            ", ".join(f"{record.curve[-1].loss:.3g}" for record in by_seed.values()),
            interval_text(values, 0),
            _each(values),
            "-" if depth == first else interval_text(gains, -1),
        )
        yield f"| {' | '.join(cells)} |"


def gains_of(
    shallow: Mapping[int, TrialRecord], deep: Mapping[int, TrialRecord], measure: str
) -> list[float]:
    """Returns the deep trial's measure minus the shallow one's, for each seed that both have."""
    return [
        _value(deep[seed], measure) - _value(shallow[seed], measure)
        for seed in sorted(shallow.keys() & deep.keys())
    ]


def interval_text(values: Sequence[float], lowest: float) -> str:
    """Mean and its 95 % interval by Student's t, cut to `lowest` and 1, of two values or more."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    half = float(student.ppf(0.975, len(values) - 1)) * statistics.stdev(values)
    half /= math.sqrt(len(values))
    return f"{mean:.3f} [{max(lowest, mean - half):.3f}, {min(1.0, mean + half):.3f}]"


def _values(by_seed: Mapping[int, TrialRecord], measure: str) -> list[float]:
    return [_value(record, measure) for record in by_seed.values()]


def _value(record: TrialRecord, measure: str) -> float:
    last = record.curve[-1]
    return last.loss if measure == LOSS else last.metrics[measure]


def _each(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _shape(by_seed: Mapping[int, TrialRecord]) -> Shape:
    return next(iter(by_seed.values())).spec.shape


def _categories(trials: Trials) -> list[str]:
    """Exact match for each category of the generalisation split, where its rows have any."""
    record = next(record for by_seed in trials.values() for record in by_seed.values())
    names = (name for name in record.curve[-1].metrics if name.startswith("exact_match/gen/"))
    return sorted(name for name in names if name != GENERALISED)
