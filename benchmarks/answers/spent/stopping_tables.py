"""Tests early stopping on many tables: if the best shape is kept, and for how many tokens.

python -m benchmarks.answers.spent.stopping_tables TABLE.csv ... --cut 28B 58B 148B 248B
python -m benchmarks.answers.spent.stopping_tables TABLE.csv ... --cut 28B 58B 148B 248B --choose
python -m benchmarks.answers.spent.stopping_tables TABLE.csv ... --first-rung 0.0625

benchmarks/worlds/curve_tables.py names the columns of a table. A comparison is a class of sizes, by
one count, with the losses as they are or corrected for size, cut at a horizon. It passes if the
best shape, by the mean over its seeds, is trained to the end, or one that is worse by at most 0.002
nats or a standard error of that mean; and if that takes at most 0.45 of the tokens of training
everything, or the rule said that it waits. `--choose` leaves out each table in turn, chooses the
cheapest rule that passes nine comparisons of ten on the others, and tries it on the one left out.
"""

import argparse
import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.simulate.arrivals import Races, Survival, survival
from benchmarks.worlds.curve_tables import SizeClass, corrected, read_runs, size_class
from fathom.objectives.keys import parse_count
from fathom.search.formatting import format_count
from fathom.search.scheduling.halving import TOO_CLOSE
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.groups import StoppingConfig, StoppingMethod
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.sizes import WIDTH, size_classes, size_slope

FIRST_RUNGS = (0.0625, 0.09, 0.125, 0.16, 0.2)
ETAS = (2.0, 2.5, 3.0, 4.0)
CLOSE = (0.0, 0.15, 0.3, 0.5, 1.0)
"""Errors behind the best within which a trial waits."""
COUNTS = ("total", "non_embedding")
SMALL_REGRET = 0.002
"""Nats that a better shape may be lost at."""
FEW_TOKENS = 0.45
"""Share of the tokens of training everything."""
ENOUGH = 0.9
"""Share of the comparisons that a rule must pass to be chosen."""
ORDERS = 5
"""Orders in which the trials of a class are drawn, of which results are means."""
CUT_FROM = 0.9
"""A table is cut at horizons below this share of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingCase:
    """A class of a table, by one count and at one horizon."""

    table: str
    title: str
    some: SizeClass

    @property
    def allowed(self) -> float:
        """Regret that is small here, nats."""
        return max(SMALL_REGRET, standard_error(self.some))


@dataclass(frozen=True, slots=True)
class StoppingOutcome:
    """What a rule does to a comparison."""

    case: StoppingCase
    result: Survival

    @property
    def keeps(self) -> bool:
        """True if the best shape is kept, or hardly anything is lost with it."""
        return self.result.regret <= self.case.allowed

    @property
    def waits(self) -> bool:
        """True if the rule says that it waits."""
        return self.result.waited > 0

    @property
    def passed(self) -> bool:
        """True if the best shape is kept for few tokens, or more where the rule waits."""
        return self.keeps and (self.waits or self.result.tokens <= FEW_TOKENS)


def main() -> None:
    """Prints a row for each comparison and the shares; a mistake is one line and status 2."""
    arguments = _arguments()
    try:
        cases = [case for table in arguments.tables for case in cases_of(table, arguments.cuts)]
    except (TableError, ConfigError, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    stages = [(case, Races(case.some)) for case in cases]
    default = StoppingConfig(rule=arguments.rule, first_rung=arguments.first_rung)
    found = [_outcome(case, stage, default, TOO_CLOSE) for case, stage in stages]
    print("\n".join(markdown(found)), flush=True)
    if arguments.choose:
        rules = itertools.product(FIRST_RUNGS, ETAS, CLOSE)
        tried = {
            f"first rung {first:g}, eta {eta:g}, within {close:g} errors": [
                _outcome(
                    case, stage, default.model_copy(update={"first_rung": first, "eta": eta}), close
                )
                for case, stage in stages
            ]
            for first, eta, close in rules
        }
        print("\n".join(left_out(tried)))


def cases_of(table: Path, cuts: Sequence[float]) -> Iterator[StoppingCase]:
    """Every comparison of a table; two counts may have the same class, which is taken once."""
    runs = read_runs(table)
    longest = max(run.tokens[-1] for run in runs)
    horizons = [*(cut for cut in cuts if cut < CUT_FROM * longest), None]
    seen = []
    for count in COUNTS:
        for group in size_classes(runs, count, WIDTH):
            if group in seen:
                continue
            seen.append(group)
            for horizon in horizons:
                some = size_class(group, horizon)
                title = f"{_sizes(some, count)}, {format_count(some.horizon)} tokens"
                yield StoppingCase(table=table.stem, title=title, some=some)
                slope, _ = size_slope(runs, some.runs, some.horizon, count)
                if slope:
                    some, title = corrected(some, count, slope), f"{title}, corrected for size"
                    yield StoppingCase(table=table.stem, title=title, some=some)


def standard_error(some: SizeClass) -> float:
    """Standard error of a shape's mean final loss, pooled over shapes; 0 with one seed a shape."""
    by_shape = defaultdict(list)
    for run, end in zip(some.runs, some.ends.tolist(), strict=True):
        by_shape[run.shape].append(end)
    repeated = [ends for ends in by_shape.values() if len(ends) > 1]
    if not repeated:
        return 0.0
    squares = sum(float(np.var(ends)) * len(ends) for ends in repeated)
    spare = sum(len(ends) - 1 for ends in repeated)
    return math.sqrt(squares / spare / fmean(map(len, repeated)))


def markdown(found: Sequence[StoppingOutcome]) -> Iterator[str]:
    """A row for each comparison, then one for each table and one for all."""
    yield "| table | class | kept | regret | allowed | tokens | waits | passed |"
    yield "|---|---|---|---|---|---|---|---|"
    for outcome in found:
        result, allowed = outcome.result, outcome.case.allowed
        yield (
            f"| {outcome.case.table} | {outcome.case.title} | {_yes(result.kept == 1)} "
            f"| {result.regret:.4f} | {allowed:.4f} | {result.tokens:.2f} | {_yes(outcome.waits)} "
            f"| {_yes(outcome.passed)} |"
        )
    yield ""
    yield "| table | comparisons | passed | of these for 0.45 of the tokens | waits | tokens |"
    yield "|---|---|---|---|---|---|"
    for table, outcomes in [*_by_table(found).items(), ("all", found)]:
        tokens = fmean(outcome.result.tokens for outcome in outcomes)
        cheap = [
            outcome
            for outcome in outcomes
            if outcome.passed and outcome.result.tokens <= FEW_TOKENS
        ]
        yield (
            f"| {table} | {len(outcomes)} | {sum(outcome.passed for outcome in outcomes)} "
            f"| {len(cheap)} | {sum(outcome.waits for outcome in outcomes)} | {tokens:.2f} |"
        )


def left_out(tried: Mapping[str, Sequence[StoppingOutcome]]) -> Iterator[str]:
    """For each table, the rule that the others choose, what it passes there and on this table."""
    yield "\n| table left out | rule chosen on the others | passed there | passed here | tokens |"
    yield "|---|---|---|---|---|"
    total = []
    for table in _by_table(next(iter(tried.values()))):
        others = {
            name: [outcome for outcome in found if outcome.case.table != table]
            for name, found in tried.items()
        }
        chosen = chosen_rule(others)
        outcomes = [outcome for outcome in tried[chosen] if outcome.case.table == table]
        total += outcomes
        tokens = fmean(outcome.result.tokens for outcome in outcomes)
        there = f"{share_passed(others[chosen]):.2f}"
        yield f"| {table} | {chosen} | {there} | {_passed(outcomes)} | {tokens:.2f} |"
    yield f"| all, each left out once | | | {_passed(total)} | |"


def chosen_rule(tried: Mapping[str, Sequence[StoppingOutcome]]) -> str:
    """The cheapest rule that passes enough, else the one that passes most; tables count alike."""
    enough = [name for name, found in tried.items() if share_passed(found) >= ENOUGH]
    if enough:
        return min(enough, key=lambda name: _tokens(tried[name]))
    return max(tried, key=lambda name: (share_passed(tried[name]), -_tokens(tried[name])))


def share_passed(found: Sequence[StoppingOutcome]) -> float:
    """Share of the comparisons passed, the mean over tables."""
    return fmean(
        fmean(outcome.passed for outcome in outcomes) for outcomes in _by_table(found).values()
    )


def _tokens(found: Sequence[StoppingOutcome]) -> float:
    tables = _by_table(found).values()
    return fmean(fmean(outcome.result.tokens for outcome in outcomes) for outcomes in tables)


def _by_table(found: Sequence[StoppingOutcome]) -> dict[str, list[StoppingOutcome]]:
    tables: dict[str, list[StoppingOutcome]] = {}
    for outcome in found:
        tables.setdefault(outcome.case.table, []).append(outcome)
    return tables


def _outcome(
    case: StoppingCase, stage: Races, config: StoppingConfig, too_close: float
) -> StoppingOutcome:
    make = partial(stage.ours, config, too_close)
    # Where no trial is compared before all have come, one order of draws stands for all.
    orders = ORDERS if config.rule is StoppingMethod.ASHA else 1
    return StoppingOutcome(case, survival(stage, make, slots=1, orders=orders, seed=0))


def _sizes(some: SizeClass, count: str) -> str:
    sizes = [run.params(count) for run in some.runs]
    span = f"{format_count(min(sizes))}-{format_count(max(sizes))}"
    return f"{span} {count}, {len(some.runs)} runs"


def _passed(found: Sequence[StoppingOutcome]) -> str:
    return f"{sum(outcome.passed for outcome in found)} of {len(found)}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("tables", type=Path, nargs="+", help="learning curves: CSV, or run folders")
    add("--cut", dest="cuts", type=parse_count, nargs="+", default=[], help="horizons, such as 58B")
    add("--rule", type=StoppingMethod, default=StoppingMethod.ASHA, help="asha or synchronous")
    first_rung = StoppingConfig().first_rung
    add("--first-rung", type=float, default=first_rung, help="share of the horizon")
    add("--choose", action="store_true", help="choose a rule with each table left out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
