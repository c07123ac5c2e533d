"""Claims of published studies beside the results of run folders, as docs/studies.md explains.

python -m benchmarks.papers.studies runs/olsson2022_induction-cpu runs/sanford2024_hops-cpu

For each claim and depth: the mean over trials with its 95 % interval (Student's t, cut where the
measure ends), each trial's own value, the number of trials that reached the mark, the number that
should, and yes if the two are equal. Then, over all run folders of a paper whose claims have a
difficulty, the depth that each difficulty requires and the gain per layer.
"""

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scipy.stats import t as student

from benchmarks.papers.amounts import amount_tables, growth_lines
from benchmarks.papers.crossings import crossing_tables
from benchmarks.papers.depth_gains import accuracy_tables, petty_tables
from benchmarks.papers.layers import EARLY, LAYERED, early, layer_table
from benchmarks.papers.shapes import shape_tables
from benchmarks.papers.splits import split_lines, split_tables
from benchmarks.papers.strengths import strength_lines, strength_tables
from fathom.models.options import Residual
from fathom.papers.analyses.required_depth.find import NAMED, RULES, fit_required_depth
from fathom.papers.analyses.required_depth.show import need_text, needs_text
from fathom.papers.tasks.alternating_blocks.keys import BlocksConfig
from fathom.papers.tasks.connectivity.keys import ConnectivityConfig
from fathom.papers.tasks.k_hop.keys import HopConfig
from fathom.search.records import Outcome, TrialRecord
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig

PREFIX_SCORE = 0.5
"""Smallest attention of the best head to the tokens after earlier copies that counts as
matching."""
MOST_ERRORS = 0.05
"""Largest share of errors at which a hop counts as solved, as in `solved/k` of `hop`."""
COLLAPSED = 1e-3
"""Smallest rank ratio at which tokens count as different; single precision ends at about 1e-7."""
LEARNT = 3.15
"""Nats per byte of the standard library: 0.1 less than the loss of byte frequencies alone."""
SOURCE_READ = 2.9
"""Nats per word of the generated language, of whose targets counts of pairs of words know 3.30."""
POST_NORM_TRAINS = 12
"""Largest number of layers at which post-norm is known to train, as in BERT (Devlin et al.
2019)."""
MOST_ATTENTION = 0.5
"""Smallest share of its attention at which a head counts as attending to the previous token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A paper's claim: a measure of finished trials reaches a mark with enough layers."""

    measure: str
    mark: float
    fewest: float | None
    """Fewest layers that reach the mark; infinite if none does, None if the paper does not say."""
    most_layers: float = math.inf
    """Most layers that reach the mark."""
    upwards: bool = True
    """True if the mark is reached at or above it; otherwise at or below."""
    highest: float = 1.0
    """Largest value that the measure can have."""
    difficulty: int | None = None
    """Difficulty of the measured task, if the required depth is expected to depend on it."""

    def reached(self, value: float) -> bool:
        """True if the value reaches the mark; NaN, as after a divergence, never does."""
        return value >= self.mark if self.upwards else value <= self.mark


def main() -> None:
    """Prints the tables of each run folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="run folders of configs/studies")
    folders = [RunFolder(path) for path in parser.parse_args().runs]
    try:
        studies = [(load(folder.config), read_records(folder.records)) for folder in folders]
        for config, records in studies:
            print("\n".join(tables(config, records)))
        print("\n".join(needs(studies)))
        for paper, lines in TOGETHER.items():
            of_paper = [study for study in studies if paper_of(study[0]) == paper]
            for line in lines(of_paper):
                print(line)
    except ValueError as error:
        sys.exit(str(error))


def tables(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Lines of the tables of a run; raises `ValueError` if its study is of no known paper."""
    seconds = sum((record.ended or record.started) - record.started for record in records)
    yield f"\n{config.study}: {len(records)} trials of together {seconds / 60:.1f} minutes\n"
    yield from report(config, records)


def report(config: StudyConfig, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The lines of a study's tables."""
    paper = paper_of(config)
    if paper in OF_LOSSES:
        yield from OF_LOSSES[paper](config, records)
        return
    claims = claims_of(config)
    names = LAYERED.get(paper)
    if names:
        yield from layer_table(records, names)
        yield ""
    for measure in {claim.measure for claim in claims if len(rates_of(records)) > 1}:
        yield from rate_table(records, measure)
        yield ""
    yield "| measure | layers | mean [95 %] | each | reached | expected | as claimed |"
    yield "|---|---|---|---|---|---|---|"
    for claim in claims:
        for depth, values in values_of(claim.measure, records).items():
            yield row(claim, depth, values)


def needs(studies: Sequence[tuple[StudyConfig, Sequence[TrialRecord]]]) -> Iterator[str]:
    """Yields lines on the required depth by difficulty and the gain per layer, for each measure.

    All trials count, since none of them was chosen by its result.
    """
    found: defaultdict[tuple[str, str, int], dict[int, Mapping[int, list[float]]]]
    found = defaultdict(dict)
    for config, records in studies:
        for claim in claims_of(config):
            if claim.difficulty is not None:
                named = NAMED.fullmatch(claim.measure)
                metric = named["metric"] if named else claim.measure
                values = values_of(claim.measure, records)
                found[paper_of(config), metric, config.budgets[0]][claim.difficulty] = values
    for (paper, metric, budget), measured in found.items():
        rule = RULES[metric.split("/")[0]]
        ascending = dict(sorted(measured.items()))
        required = fit_required_depth(ascending, rule, metric=metric, budget=budget, seed=0)
        yield f"\n{paper}: {needs_text(required)}\n"
        yield "| difficulty | depth needed |"
        yield "|---|---|"
        yield from (f"| {need.difficulty} | {need_text(need)} |" for need in required.needs)


def paper_of(config: StudyConfig) -> str:
    """The first part of a study's name."""
    return config.study.partition("-")[0]


def claims_of(config: StudyConfig) -> list[Claim]:
    """Returns the claims of the paper that a study's name begins with; none for `OF_LOSSES`.

    Raises:
        ValueError: when the name begins with none of `PAPERS`.
    """
    paper = paper_of(config)
    if paper in OF_LOSSES:
        return []
    if paper not in PAPERS:
        known = ", ".join([*PAPERS, *OF_LOSSES])
        raise ValueError(f"a study must be named after one of {known}, got {paper}")
    return PAPERS[paper](config)


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
            difficulty=k,
        )
        for k in range(1, config.objective.hops + 1)
    ]


def _rank(config: StudyConfig) -> list[Claim]:
    collapses = config.model.residual is Residual.NONE and config.model.bidirectional
    return [Claim(measure="rank_ratio", mark=COLLAPSED, fewest=math.inf if collapses else 1)]


def _blocks(config: StudyConfig) -> list[Claim]:
    assert isinstance(config.objective, BlocksConfig)
    low, high = config.objective.test_lengths[-1]
    k = config.objective.blocks
    measure, mark = f"exact_match/{low}-{high}", RULES["exact_match"].limit
    return [Claim(measure=measure, mark=mark, fewest=k - 2, difficulty=k)]


def _admin(config: StudyConfig) -> list[Claim]:
    most_layers = POST_NORM_TRAINS if config.model.residual is Residual.POST else math.inf
    return [
        Claim(
            measure="loss",
            mark=LEARNT,
            fewest=1,
            most_layers=most_layers,
            upwards=False,
            highest=math.inf,
        )
    ]


def _deep_encoder(config: StudyConfig) -> list[Claim]:
    return [replace(claim, mark=SOURCE_READ) for claim in _admin(config)]


def _connectivity(config: StudyConfig) -> list[Claim]:
    assert isinstance(config.objective, ConnectivityConfig)
    return [
        Claim(measure=f"error/d{d}", mark=MOST_ERRORS, fewest=None, upwards=False, difficulty=d)
        for d in range(1, config.objective.diameter + 1)
    ]


def _heads(config: StudyConfig) -> list[Claim]:
    return [Claim(measure=EARLY, mark=MOST_ATTENTION, fewest=1)]


PAPERS: dict[str, Callable[[StudyConfig], list[Claim]]] = {
    "olsson2022_induction": _induction,
    "sanford2024_hops": _hops,
    "dong2021_rank_collapse": _rank,
    "yang2025_blocks": _blocks,
    "liu2020_admin": _admin,
    "liu2020_admin_translation": _deep_encoder,
    "sanford2024_connectivity": _connectivity,
    "clark2019_heads": _heads,
}

OF_LOSSES: dict[str, Callable[[StudyConfig, Sequence[TrialRecord]], Iterator[str]]] = {
    "vatsadev2024": shape_tables,
    "levine2020": crossing_tables,
    "petty2023": petty_tables,
    "brown2022": accuracy_tables,
    "vanbiljon2020": amount_tables,
    "murray2019": strength_tables,
    "kasai2020": split_tables,
}
"""Papers that claim an order of losses instead of a mark -> the function for their tables."""

Studies = Sequence[tuple[StudyConfig, Sequence[TrialRecord]]]

TOGETHER: dict[str, Callable[[Studies], Iterator[str]]] = {
    "vanbiljon2020": growth_lines,
    "murray2019": strength_lines,
    "kasai2020": split_lines,
}
"""Papers whose claim compares studies -> the function for the lines over all run folders."""


def values_of(measure: str, records: Sequence[TrialRecord]) -> Mapping[int, list[float]]:
    """Returns depth -> final values of the measure, in the order of seeds; NaN if a trial diverged.

    Only trials at the study's own rate count, which has the most seeds.
    """
    ended = [r for r in records if r.outcome in (Outcome.FINISHED, Outcome.DIVERGED)]
    values: defaultdict[int, list[float]] = defaultdict(list)
    for record in sorted(ended, key=lambda record: (record.spec.shape.depth, record.spec.seed)):
        if record.spec.rate_scale == 1:
            values[record.spec.shape.depth].append(value_of(measure, record))
    return values


def value_of(measure: str, record: TrialRecord) -> float:
    """Final value of a measure of a trial; NaN if it diverged."""
    if record.outcome is not Outcome.FINISHED:
        return math.nan
    if measure == EARLY:
        return early(record)
    last = record.curve[-1]
    return last.loss if measure == "loss" else last.metrics[measure]


def rates_of(records: Sequence[TrialRecord]) -> list[float]:
    """Multiples of the study's rate that were tried, ascending."""
    return sorted({record.spec.rate_scale for record in records})


def rate_table(records: Sequence[TrialRecord], measure: str) -> Iterator[str]:
    """Each trial's value, by depth and rate."""
    yield f"| layers | rate | `{measure}`, each |"
    yield "|---|---|---|"
    cells: defaultdict[tuple[int, float], list[str]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.spec.seed):
        cell = record.spec.shape.depth, record.spec.learning_rate
        cells[cell].append(f"{value_of(measure, record):.3g}")
    for (depth, rate), each in sorted(cells.items()):
        yield f"| {depth} | {rate:g} | {', '.join(each)} |"


def row(claim: Claim, depth: int, values: Sequence[float]) -> str:
    """A line of the table of claims."""
    reached = sum(map(claim.reached, values))
    cells = (
        f"`{claim.measure}`",
        str(depth),
        mean_text(values, claim.highest),
        ", ".join(f"{value:.3g}" for value in values),
        f"{reached} of {len(values)}",
        *_judged(claim, depth, reached, len(values)),
    )
    return f"| {' | '.join(cells)} |"


def _judged(claim: Claim, depth: int, reached: int, trials: int) -> tuple[str, str]:
    """Returns the number of trials that should reach the mark, and yes if that many did."""
    if claim.fewest is None:
        return "-", "-"
    expected = trials if claim.fewest <= depth <= claim.most_layers else 0
    return str(expected), "yes" if reached == expected else "no"


def mean_text(values: Sequence[float], highest: float = 1.0) -> str:
    """Mean and its 95 % interval within 0 and the highest value, which takes two values or more."""
    mean = statistics.fmean(values)
    if len(values) < 2 or math.isnan(mean):
        return f"{mean:.3g}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(student.ppf(0.975, len(values) - 1)) * error
    return f"{mean:.3g} [{max(0.0, mean - half):.3g}, {min(highest, mean + half):.3g}]"


if __name__ == "__main__":
    main()
