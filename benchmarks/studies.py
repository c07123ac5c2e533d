"""What published studies claim, beside what run folders say; docs/studies.md has the words.

python -m benchmarks.studies runs/olsson2022_induction-cpu runs/sanford2024_hops-cpu

For each claim and depth: the mean over trials with its 95 % interval (Student's t, cut where the
measure ends), each trial's own value, in how many the mark was reached, in how many it should be,
and whether that is so.
"""

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import t as student

from benchmarks.studies_crossings import crossing_tables
from benchmarks.studies_shapes import shape_tables
from models.shape import Residual
from search.config import StudyConfig, load
from search.config_generated import HopConfig
from search.folder import RunFolder
from search.record_file import read_records
from search.records import Outcome, TrialRecord

PREFIX_SCORE = 0.5
"""Attention of the best head to what followed earlier copies, from which on it is said to match."""
MOST_ERRORS = 0.05
"""Share of errors up to which a hop counts as solved, as in the `solved/k` of `hop`."""
COLLAPSED = 1e-3
"""Rank ratio from which on tokens are said to differ; single precision ends at about 1e-7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A measure of finished trials from 0 to 1, a mark, and from how many layers it is reached."""

    measure: str
    mark: float
    fewest: float
    """Layers from which the mark is reached; infinite where it never is."""
    upwards: bool = True
    """Reached at or above the mark; otherwise at or below."""

    def reached(self, value: float) -> bool:
        """What is no number, as after a divergence, reaches no mark."""
        return value >= self.mark if self.upwards else value <= self.mark


def main() -> None:
    """Print the tables of each run folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="run folders of configs/studies")
    for path in parser.parse_args().runs:
        try:
            print("\n".join(tables(RunFolder(path))))
        except ValueError as error:
            sys.exit(str(error))


def tables(folder: RunFolder) -> Iterator[str]:
    """The lines about a run folder; raises `ValueError`, one line, where it holds no such study."""
    config, records = load(folder.config), read_records(folder.records)
    seconds = sum((record.ended or record.started) - record.started for record in records)
    yield f"\n{config.study}: {len(records)} trials of together {seconds / 60:.1f} minutes\n"
    yield from report(config, records)


def report(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The lines of a study's tables."""
    paper = _paper_of(config)
    if paper in OF_LOSSES:
        yield from OF_LOSSES[paper](config, records)
        return
    claims = claims_of(config)
    if any(claim.measure == "rank_ratio" for claim in claims):
        yield from layer_table(records)
        yield ""
    yield "| measure | layers | mean [95 %] | each | reached | expected | as claimed |"
    yield "|---|---|---|---|---|---|---|"
    for claim in claims:
        for depth, values in values_of(claim.measure, records).items():
            yield row(claim, depth, values)


def claims_of(config: StudyConfig) -> list[Claim]:
    """What is claimed of a study's shapes, by the paper that its name begins with.

    Raises:
        ValueError: when that is none of `PAPERS`.
    """
    paper = _paper_of(config)
    if paper not in PAPERS:
        known = ", ".join([*PAPERS, *OF_LOSSES])
        raise ValueError(f"a study must be named after one of {known}, got {paper}")
    return PAPERS[paper](config)


def _paper_of(config: StudyConfig) -> str:
    return config.study.partition("-")[0]


def _induction(config: StudyConfig) -> list[Claim]:
    fewest = 1 if config.model.smeared_keys else 2
    return [Claim(measure="induction", mark=PREFIX_SCORE, fewest=fewest)]


def _hops(config: StudyConfig) -> list[Claim]:
    assert isinstance(config.objective, HopConfig)
    return [
        Claim(
            measure=f"error/k{k}",
            mark=MOST_ERRORS,
            fewest=math.floor(math.log2(k)) + 2,
            upwards=False,
        )
        for k in range(1, config.objective.hops + 1)
    ]


def _rank(config: StudyConfig) -> list[Claim]:
    collapses = config.model.residual is Residual.NONE and config.model.bidirectional
    return [Claim(measure="rank_ratio", mark=COLLAPSED, fewest=math.inf if collapses else 1)]


PAPERS: dict[str, Callable[[StudyConfig], list[Claim]]] = {
    "olsson2022_induction": _induction,
    "sanford2024_hops": _hops,
    "dong2021_rank_collapse": _rank,
}

OF_LOSSES: dict[str, Callable[[StudyConfig, Sequence[TrialRecord]], Iterator[str]]] = {
    "vatsadev2024_shapes": shape_tables,
    "levine2020_crossings": crossing_tables,
}
"""Papers that claim no mark, but how losses compare: the tables of their studies."""


def values_of(measure: str, records: Sequence[TrialRecord]) -> Mapping[int, list[float]]:
    """What each trial measured at its end, by depth, in the order of seeds; NaN if it diverged."""
    ended = [r for r in records if r.outcome in (Outcome.FINISHED, Outcome.DIVERGED)]
    values: defaultdict[int, list[float]] = defaultdict(list)
    for record in sorted(ended, key=lambda record: (record.spec.shape.depth, record.spec.seed)):
        finished = record.outcome is Outcome.FINISHED
        value = record.curve[-1].metrics[measure] if finished else math.nan
        values[record.spec.shape.depth].append(value)
    return values


def row(claim: Claim, depth: int, values: Sequence[float]) -> str:
    """A line of the table of claims."""
    reached = sum(map(claim.reached, values))
    expected = len(values) if depth >= claim.fewest else 0
    cells = (
        f"`{claim.measure}`",
        str(depth),
        mean_words(values),
        ", ".join(f"{value:.3g}" for value in values),
        f"{reached} of {len(values)}",
        str(expected),
        "yes" if reached == expected else "no",
    )
    return f"| {' | '.join(cells)} |"


def mean_words(values: Sequence[float]) -> str:
    """Mean of shares and its 95 % interval, which takes two or more of them."""
    mean = statistics.fmean(values)
    if len(values) < 2 or math.isnan(mean):
        return f"{mean:.3g}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(student.ppf(0.975, len(values) - 1)) * error
    return f"{mean:.3g} [{max(0.0, mean - half):.3g}, {min(1.0, mean + half):.3g}]"


def layer_table(records: Sequence[TrialRecord]) -> Iterator[str]:
    """The rank ratio behind each layer of the deepest shape: the mean over trials, and its ends."""
    deepest = max(record.spec.shape.depth for record in records)
    courses = [r.layers["rank_ratio"] for r in records if r.spec.shape.depth == deepest]
    yield f"| layer | mean of {len(courses)} | lowest | highest |"
    yield "|---|---|---|---|"
    for layer, ratios in enumerate(zip(*courses, strict=True), 1):
        numbers = statistics.fmean(ratios), min(ratios), max(ratios)
        yield f"| {layer} | {' | '.join(f'{number:.2g}' for number in numbers)} |"


if __name__ == "__main__":
    main()
