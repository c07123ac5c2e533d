"""`fathom compare`: several studies by their best losses, each pair with an interval."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fathom.search.analysis import depth_estimates
from fathom.search.contract.reply import Difference, Reply, StudyComparison, StudyLoss
from fathom.search.formatting import format_count
from fathom.search.records import by_budget
from fathom.search.report.terminal.tables import empty_table
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.fingerprint import read_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.own_records import read_records
from fathom.search.study.preflight import load_run

CONFIDENCE = 0.95
"""Probability that all intervals of a budget hold together."""
ALIKE = ("objective", "count", "tokens", "tokens_per_parameter", "train_flops", "train")
"""Keys that must be the same: losses of other data, or of other training, do not compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStudy:
    """A study and its best losses."""

    config: StudyConfig
    data: str
    """Digest of the data."""
    best: dict[int, depth_estimates.BestLoss]
    """Budget -> the best loss there."""

    @property
    def name(self) -> str:
        """The study's name, with its split."""
        split = self.config.space.split
        return f"{self.config.study} ({split})" if split else self.config.study


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two studies at a budget."""

    budget: int
    one: str
    other: str
    difference: depth_estimates.LossDifference

    @property
    def text(self) -> str:
        """Which study has the lower best loss, or that it is not settled."""
        if not self.difference.is_settled:
            return "not settled"
        return f"{self.other if self.difference.difference > 0 else self.one} is better"


def compare_runs(paths: Sequence[Path]) -> tuple[list[ComparedStudy], list[ComparedPair]]:
    """The studies of some run folders, and every pair of them at every budget that both have.

    Raises:
        ConfigError: if they can't be compared.
    """
    if len(paths) < 2:
        raise ConfigError(f"at least two run folders are needed, got {len(paths)}; name another")
    pairs_of_a_budget = len(paths) * (len(paths) - 1) // 2
    # A pair has two intervals.
    studies = [_study(path, 1 - (1 - CONFIDENCE) / (2 * pairs_of_a_budget)) for path in paths]
    for other in studies[1:]:
        _check_alike(studies[0], other)
    pairs = list(_pairs(studies))
    if not pairs:
        raise ConfigError(
            f"{paths[0]} and {paths[1]} must have a budget in common with whole trainings in both; "
            "run them with the same `budgets`"
        )
    return studies, pairs


def _pairs(studies: Sequence[ComparedStudy]) -> Iterator[ComparedPair]:
    for budget in studies[0].config.budgets:
        trained = [study for study in studies if budget in study.best]
        for first, second in combinations(trained, 2):
            yield ComparedPair(
                budget=budget,
                one=first.name,
                other=second.name,
                difference=depth_estimates.loss_difference(first.best[budget], second.best[budget]),
            )


def _study(path: Path, confidence: float) -> ComparedStudy:
    folder, config = load_run(path)
    fingerprint = read_fingerprint(folder)
    best = {}
    for budget, records in by_budget(read_records(folder, config)).items():
        estimates = depth_estimates.estimate_depths(records)
        if found := depth_estimates.best_loss(estimates, confidence=confidence):
            best[budget] = found
    return ComparedStudy(config=config, data=fingerprint.data if fingerprint else "", best=best)


def _check_alike(first: ComparedStudy, second: ComparedStudy) -> None:
    """Raises `ConfigError` if two studies differ in what their losses are measured on."""
    one, other = first.config, second.config
    differing = [f"`{key}`" for key in ALIKE if getattr(one, key) != getattr(other, key)]
    if first.data != second.data:
        differing.append("data")
    if differing:
        raise ConfigError(
            f"studies that are compared must have the same {differing[0]}, which {one.study} and "
            f"{other.study} do not; run one of them again"
        )


def print_comparison(
    studies: Sequence[ComparedStudy], pairs: Sequence[ComparedPair], console: Console
) -> None:
    """Prints the best losses and their differences."""
    console.print(_best_table(studies))
    console.print(_pair_table(pairs))
    console.print(
        f"Differences are of best losses, first minus second, in "
        f"{studies[0].config.objective.loss_unit}. All intervals of a budget hold together with "
        f"{CONFIDENCE:.0%}.",
        style="dim",
    )


def _best_table(studies: Sequence[ComparedStudy]) -> Table:
    table = empty_table("Best losses", ("budget", "study", "best depth", "loss", "interval"))
    for budget in studies[0].config.budgets:
        for study in studies:
            if budget in study.best:
                best = study.best[budget]
                interval = f"{best.low:.4f} to {best.high:.4f}"
                loss = f"{best.loss:.4f}"
                table.add_row(format_count(budget), study.name, str(best.depth), loss, interval)
    return table


def _pair_table(pairs: Sequence[ComparedPair]) -> Table:
    headings = ("budget", "first", "second", "difference", "interval", "answer")
    table = empty_table("Differences", headings)
    for pair in pairs:
        found = pair.difference
        interval = f"{found.low:+.4f} to {found.high:+.4f}"
        table.add_row(
            *(format_count(pair.budget), pair.one, pair.other),
            *(f"{found.difference:+.4f}", interval, pair.text),
        )
    return table


def comparison_reply(studies: Sequence[ComparedStudy], pairs: Sequence[ComparedPair]) -> Reply:
    """The best losses and their differences in the form that programs read."""
    best = tuple(
        StudyLoss(study=study.name, budget=budget, **asdict(best))
        for study in studies
        for budget, best in study.best.items()
    )
    differences = tuple(
        Difference(
            budget=pair.budget, one=pair.one, other=pair.other,
            settled=pair.difference.is_settled, **asdict(pair.difference),
        )
        for pair in pairs
    )  # fmt: skip
    comparison = StudyComparison(confidence=CONFIDENCE, best=best, differences=differences)
    return Reply(command="compare", comparison=comparison)
