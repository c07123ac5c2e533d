"""Early stopping on real learning curves: our rule against Ray's ASHA, at equal tokens spent.

python -m benchmarks.answers.spent.stopping TABLE.csv
python -m benchmarks.answers.spent.stopping TABLE.csv --class 100M --width 0.1 --figure stopping.png

TABLE.csv has a row for each evaluation; benchmarks/worlds/curve_tables.py names its columns, and
reads the run folder of a study as well. Every class of
sizes is replayed with the losses as they are and, where sizes differ, as if all had the median
size. benchmarks/simulate/arrivals.py describes the order in which trials arrive.
"""

import argparse
import itertools
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.simulate.arrivals import MakeRule, Races, Survival, survival
from benchmarks.worlds.curve_tables import SizeClass, corrected, read_runs, size_class
from fathom.objectives.keys import parse_count
from fathom.search.formatting import format_count
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.groups import StoppingConfig, StoppingMethod
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.sizes import runs_near, size_classes, size_slope
from fathom.search.tables.runs import Run

GRACES = (0.006, 0.011, 0.029, 0.057, 0.11, 0.25)
"""Shares of the horizon before which stock ASHA stops nothing."""
STOCK_ETAS = (2.0, 3.0, 4.0)
FIRST_RUNGS = (0.006, 0.008, 0.011, 0.015, 0.02, 0.03, 0.045, 0.0625, 0.09, 0.125, 0.18, 0.25)
OUR_ORDERS = 20
"""Orders of draws for a setting of our rule, of which results are means."""
OUR_ETAS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
FIXED = {
    "default": StoppingConfig(),
    "careful": StoppingConfig(first_rung=0.25, eta=2.0),
}
"""Settings of our rule for every class: a study's default without audit trials, and a careful one
that first pauses at a quarter of the horizon."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a stopping rule and its effect on a class of curves."""

    name: str
    result: Survival


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Results of our rule and of stock ASHA on one class, with one number of slots."""

    title: str
    stock: tuple[Setting, ...]
    ours: tuple[Setting, ...]
    fixed: tuple[Setting, ...]
    """Our rule at the settings of `FIXED`."""


def main() -> None:
    """Prints the comparison as Markdown; a mistake is one line and exit status 2."""
    arguments = _arguments()
    try:
        comparisons = list(compare(arguments))
    except (TableError, ConfigError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for comparison in comparisons:
        print("\n".join(markdown(comparison)), flush=True)
    if arguments.figure:
        draw(comparisons, arguments.figure)


def compare(arguments: argparse.Namespace) -> Iterator[Comparison]:
    """Yields a comparison for each class, as it is and corrected for size, and slots."""
    for (title, some), slots in itertools.product(_classes(arguments), arguments.slots):
        yield compare_class(
            f"{title}; trials at a time: {slots}",
            some,
            slots=slots,
            orders=arguments.orders,
            seed=arguments.seed,
            rule=arguments.rule,
        )


def compare_class(
    title: str,
    some: SizeClass,
    *,
    slots: int,
    orders: int,
    seed: int,
    rule: StoppingMethod = StoppingMethod.ASHA,
) -> Comparison:
    """Compares all settings of both rules on the same orders of arrival."""
    stage = Races(some)

    def replayed(name: str, make: MakeRule, orders: int = orders) -> Setting:
        return Setting(name, survival(stage, make, slots=slots, orders=orders, seed=seed))

    def ours(name: str, config: StoppingConfig) -> Setting:
        # Where no trial is compared before all have come, one order of draws stands for all.
        config = config.model_copy(update={"rule": rule})
        few = OUR_ORDERS if rule is StoppingMethod.ASHA else 1
        return replayed(name, partial(stage.ours, config), min(orders, few))

    return Comparison(
        title=title,
        stock=tuple(
            replayed(f"{eta:g}, {grace:.1%}", partial(stage.stock, grace, eta))
            for eta, grace in itertools.product(STOCK_ETAS, GRACES)
        ),
        ours=tuple(ours(_name(config), config) for config in settings()),
        fixed=tuple(ours(f"{name}: {_name(config)}", config) for name, config in FIXED.items()),
    )


def settings() -> Iterator[StoppingConfig]:
    """The settings of our rule that are tried."""
    for eta, first in itertools.product(OUR_ETAS, FIRST_RUNGS):
        yield StoppingConfig(first_rung=first, eta=eta)


def at_no_more_tokens(ours: Iterable[Setting], tokens: float) -> Setting | None:
    """The setting that keeps the best shape most often for at most these tokens."""
    within = [setting for setting in ours if setting.result.tokens <= tokens]
    return max(
        within, key=lambda setting: (setting.result.kept, -setting.result.regret), default=None
    )


def markdown(comparison: Comparison) -> Iterator[str]:
    """A title, a row for each setting of stock ASHA, and ours at the fixed settings."""
    yield f"\n### {comparison.title}\n"
    yield (
        "| stock ASHA: eta, grace | tokens | kept | regret "
        "| ours at no more tokens: eta, first rung | tokens | kept | regret |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for stock in sorted(comparison.stock, key=lambda setting: setting.result.tokens):
        ours = at_no_more_tokens(comparison.ours, stock.result.tokens)
        yield f"| {_cells(stock)} | {_cells(ours) if ours else 'none | | |'} |"
    for setting in comparison.fixed:
        yield f"| | | | | {_cells(setting)} |"


def draw(comparisons: Sequence[Comparison], path: Path) -> None:
    """Saves a figure of survival against tokens of both rules, a panel per comparison."""
    across = min(2, len(comparisons))
    down = math.ceil(len(comparisons) / across)
    figure = Figure(figsize=(6.4 * across, 3.6 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel, comparison in zip(panels, comparisons, strict=False):
        for name, colour, outcomes in (
            ("stock ASHA", "tab:orange", comparison.stock),
            ("ours", "tab:blue", comparison.ours),
        ):
            edge = frontier(outcomes)
            points = [(setting.result.tokens, setting.result.kept) for setting in outcomes]
            panel.scatter(*zip(*points, strict=True), s=12, alpha=0.4, color=colour)
            panel.step(*zip(*edge, strict=True), where="post", color=colour, label=name)
        for setting, marker in zip(comparison.fixed, "*P", strict=True):
            at = setting.result.tokens, setting.result.kept
            panel.plot(*at, marker, color="black", markersize=9, label=f"ours, {setting.name}")
        panel.set_title(textwrap.fill(comparison.title, 80), fontsize=8)
        panel.set_xlabel("training tokens, share of training every run to the end")
        panel.set_ylabel("best shape kept, share of orders")
        panel.set_ylim(-0.03, 1.03)
        panel.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=130)


def frontier(settings: Iterable[Setting]) -> list[tuple[float, float]]:
    """Tokens and survival of the settings that no cheaper one equals, extended to 1."""
    edge: list[tuple[float, float]] = []
    for setting in sorted(
        settings, key=lambda setting: (setting.result.tokens, -setting.result.kept)
    ):
        if not edge or setting.result.kept > edge[-1][1]:
            edge.append((setting.result.tokens, setting.result.kept))
    return [*edge, (1.0, edge[-1][1])]


def _classes(arguments: argparse.Namespace) -> Iterator[tuple[str, SizeClass]]:
    """Yields each class as it is and, if sizes differ, corrected for size, with a title."""
    runs, count = read_runs(arguments.table), arguments.count
    for group in _groups(arguments, runs):
        some = size_class(group, arguments.horizon)
        gone = f", {out} left out that broke off" if (out := len(group) - len(some.runs)) else ""
        yield _title(some, count, f"losses as they are{gone}"), some
        slope = arguments.slope
        if slope is None:
            slope, _ = size_slope(runs, some.runs, some.horizon, count)
        if slope:
            text = f"corrected for size by {slope:.2f} nats per ln parameters"
            other = corrected(some, count, slope)
            yield _title(other, count, text), other


def _groups(arguments: argparse.Namespace, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    count, width = arguments.count, arguments.width
    if arguments.sizes:
        groups = [runs_near(runs, size, count, width) for size in arguments.sizes]
    else:
        groups = size_classes(runs, count, width)
    if not groups or min(map(len, groups)) < 2:
        raise TableError(
            f"{arguments.table} must have at least 2 runs within {width:g} of a size, "
            f"found {[len(group) for group in groups]}; raise --width or drop --class"
        )
    return groups


def _title(some: SizeClass, count: str, text: str) -> str:
    sizes = sorted(run.params(count) for run in some.runs)
    span = f"{format_count(sizes[0])} to {format_count(sizes[-1])} parameters ({count})"
    runs = f"{len(some.runs)} runs, {format_count(some.horizon)} tokens"
    return f"{span}, {runs}, best {some.best.label}; {text}"


def _name(config: StoppingConfig) -> str:
    return f"{config.eta:g}, {config.first_rung:.1%}"


def _cells(setting: Setting) -> str:
    result = setting.result
    return f"{setting.name} | {result.tokens:.3f} | {result.kept:.3f} | {result.regret:.4f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("table", type=Path, help="learning curves: CSV, or a run folder")
    add("--class", dest="sizes", type=parse_count, nargs="+", metavar="SIZE", help="such as 100M")
    add("--width", type=float, default=0.15, help="sizes of a class are this close to its middle")
    add("--count", choices=("total", "non_embedding"), default="total", help="what size counts")
    add("--horizon", type=parse_count, help="cut the curves off at these tokens, such as 100B")
    add("--slope", type=float, help="nats per ln parameters; estimated in the class if not given")
    add("--slots", type=int, nargs="+", default=[1, 4], help="trials at a time")
    add("--orders", type=int, default=400, help="random orders of arrival")
    add("--rule", type=StoppingMethod, default=StoppingMethod.ASHA, help="asha or synchronous")
    add("--seed", type=int, default=0)
    add("--figure", type=Path, help="draw tokens against survival here, PNG or SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
