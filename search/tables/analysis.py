"""The answers of a table: the statistics of a search on runs that somebody already has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median

from fathom.models.shape import Count
from fathom.search.analysis.optimum import Optimum, find_optimum
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import format_count, printable, ranges, rounded_count
from fathom.search.tables.cells import read_cells
from fathom.search.tables.columns import Columns, as_argument, choose_columns, listed
from fathom.search.tables.grouping import group_runs
from fathom.search.tables.read import OpenTable
from fathom.search.tables.runs import Run, Runs, TableError
from fathom.search.tables.sizes import WIDTH, runs_near, size_classes
from fathom.search.tables.trials import ENOUGH_DEPTHS, TableBudget, full_horizon, table_budget
from fathom.search.words import table_reason

STEPS_NOTE = ("horizons are in steps, which must be of as many tokens in every run",)
A_GUESS = 12.5
"""Nats that a guess among 270,000 tokens loses, more than any vocabulary has."""
NO_LOSS_NOTE = ("every loss is above 12.5 nats: if these are perplexities, take their logarithm",)
SEED = 0
"""Seed of the bootstrap."""
MOST_SIZES = 5000
"""Most different sizes among which classes are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """What is asked of a table."""

    count: Count | None = None
    """Parameters that a size counts; None for those that the table has, in total first."""
    budgets: Sequence[int] = ()
    """Sizes; without any, those around which the table has most depths."""
    width: float = WIDTH
    """How far a size may be from a budget, as a share of it."""
    horizons: Sequence[int] = ()
    """Tokens; without any, those that the runs of each size have in common."""
    noise: float | None = None
    """Noise between seeds, nats, as stated by the person who asks; None to measure it."""


@dataclass(frozen=True, kw_only=True)
class TableFindings(Findings):
    """What a table shows of several sizes at one horizon."""

    table: str
    counted: Count

    @property
    def title(self) -> str:
        """The table, as a message calls it."""
        return self.table

    @property
    def count(self) -> Count:
        """Rule by which sizes are counted."""
        return self.counted

    @property
    def seed(self) -> int:
        """Seed of the statistics, the same for every table."""
        return SEED

    def reason(self, optimum: Optimum) -> str:
        """Returns the reason of a verdict, with the runs that would settle it."""
        return table_reason(optimum.verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A table or a run folder, and what it shows."""

    label: str
    rows: int
    """Rows of a table, trials of a run folder."""
    columns: Mapping[str, str]
    """Our name -> the table's own; empty for a run folder."""
    runs: int
    shapes: int
    notes: tuple[str, ...]
    """What was taken for what, assumed, or left out, as sentences without a full stop."""
    noise: float | None
    """Noise between seeds that was stated, nats."""
    findings: tuple[Findings, ...]
    """One for each horizon that was asked for."""


def analyse_table(table: OpenTable, told: Mapping[str, str], question: TableQuestion) -> Analysis:
    """The answers of a table; `told` has its name of a column -> ours.

    Raises:
        TableError: when the table does not have what it takes, or what is asked.
    """
    columns = choose_columns(table.names, told, table.label)
    cells = read_cells(table, columns)
    runs = group_runs(cells, table.label)
    count = budget_count(question, columns, table.label)
    return Analysis(
        label=table.label,
        rows=cells.rows,
        columns=columns.taken,
        runs=len(runs.runs),
        shapes=len({run.shape for run in runs.runs}),
        notes=(
            *_column_notes(columns, count),
            *runs.notes,
            *STEPS_NOTE * (runs.unit == "steps"),
            *NO_LOSS_NOTE * (float(cells.values["loss"].min()) > A_GUESS),
        ),
        noise=question.noise,
        findings=find_answers(runs, question, count, table.label),
    )


def _column_notes(columns: Columns, count: Count) -> Iterator[str]:
    """Yields what the columns leave to be assumed."""
    taken = columns.taken
    for ours, others in columns.passed_over.items():
        yield f"{ours} might also be {listed(others)}; --map says which"
    if "train" in taken["loss"].lower():
        yield "the loss is that of training: held-out losses may rank depths otherwise"
    if not {"params_total", "params_non_embedding"} & set(taken):
        formula = "depth (4 d_model² + 2 d_model d_ff)" if "d_ff" in taken else "12 depth d_model²"
        yield f"no column has the size: it is estimated, without the embedding, as {formula}"
    elif count is Count.TOTAL and "total" not in taken["params_total"].lower():
        theirs = taken["params_total"]
        yield (
            f"{printable(theirs)} is taken to count every parameter; if it leaves out the "
            f"embedding, --map {as_argument(theirs)}=params_non_embedding"
        )
    if "seed" not in taken:
        yield "there is no column with seeds"


def budget_count(question: TableQuestion, columns: Columns, label: str) -> Count:
    """The rule by which the sizes of a table are counted.

    Raises:
        TableError: when the rule that is asked for is not among its columns.
    """
    known = {
        Count.TOTAL: "params_total" in columns.taken,
        Count.NON_EMBEDDING: "params_non_embedding" in columns.taken,
    }
    if not any(known.values()):
        known[Count.NON_EMBEDDING] = True  # 12 depth d_model**2
    first = next(count for count, there in known.items() if there)
    asked = question.count or first
    if not known.get(asked):
        raise TableError(
            f"`--count` must be {first}, of which {label} has sizes, got {asked}; name a column "
            "with --map COLUMN=params_total or COLUMN=params_non_embedding"
        )
    return asked


def find_answers(
    runs: Runs, question: TableQuestion, count: Count, label: str
) -> tuple[TableFindings, ...]:
    """What a table shows, for each horizon that is asked for; one without a horizon.

    Raises:
        TableError: when the table has nothing of what is asked.
    """
    classes = _classes(runs.runs, question, count, label)
    if question.horizons and not runs.unit:
        raise TableError(
            f"`--horizon` must be tokens of the table, got {format_count(question.horizons[0])}, "
            f"and {label} has none; name them with --map COLUMN=tokens, or drop it"
        )
    horizons = question.horizons or (None,)
    return tuple(_findings(runs, classes, question, count, label, at) for at in horizons)


def _classes(
    runs: Sequence[Run], question: TableQuestion, count: Count, label: str
) -> dict[int, Sequence[Run]]:
    """Budget -> the runs about its size, by budget."""
    sizes = [run.params(count) for run in runs]
    found: dict[int, Sequence[Run]] = {}
    for size in sorted(set(question.budgets)):
        found[size] = runs_near(runs, size, count, question.width)
        if not found[size]:
            raise TableError(
                f"`--budget` must be a size of {label} within {question.width:.0%}, got "
                f"{format_count(size)}; it has {_spanned(sizes)} {count.unit_in_full}"
            )
    if found:
        return found
    if len(set(sizes)) > MOST_SIZES:
        raise TableError(
            f"{label} must have at most {MOST_SIZES} different sizes to look for classes among "
            f"them, got {len(set(sizes))}; name the sizes with --budget"
        )
    for fewest in (ENOUGH_DEPTHS, 2):
        classes = size_classes(runs, count, question.width, fewest=fewest, kind=attrgetter("depth"))
        if classes:
            return {_middle(members, count): members for members in classes}
    depths = sorted({run.depth for run in runs})
    raise TableError(
        f"{label} must have models of several depths at one size, within {question.width:.0%}, got "
        f"depths {ranges(depths)} from {_spanned(sizes)} {count.unit_in_full}, no two of them at "
        "one size; train them so, or widen --width"
    )


def _middle(runs: Sequence[Run], count: Count) -> int:
    """The median size of runs, to three digits."""
    return int(float(f"{median(run.params(count) for run in runs):.3g}"))


def _findings(
    runs: Runs,
    classes: Mapping[int, Sequence[Run]],
    question: TableQuestion,
    count: Count,
    label: str,
    horizon: int | None,
) -> TableFindings:
    budgets = []
    for size, near in classes.items():
        tokens = horizon or full_horizon(near)
        budget = table_budget(runs.runs, near, params=size, count=count, tokens=tokens, table=label)
        if any(record.loss is not None for record in budget.records):
            budgets.append(budget)
    if not budgets:
        ends = [at for run in runs.runs for at in run.tokens[[0, -1]].tolist() if len(run.tokens)]
        raise TableError(
            f"`--horizon` must be {runs.unit} that the runs of a budget reach, "
            f"{_spanned(ends)}, got {format_count(horizon or 0)}"
        )
    return TableFindings(
        table=label,
        counted=count,
        records=tuple(record for budget in budgets for record in budget.records),
        optima=tuple(_optimum(budget, runs.unit, question.noise) for budget in budgets),
    )


def _optimum(budget: TableBudget, unit: str, noise: float | None) -> Optimum:
    found = find_optimum(budget.records, seed=SEED, noise=noise)
    slope = found.params_slope if budget.slope is None else budget.slope
    # A table need not say what heads and ratio its shapes have: no whole shape is its answer.
    return replace(found, horizon_unit=unit, params_slope=slope, shape=None, best_ff_ratio=None)


def _spanned(numbers: Sequence[float]) -> str:
    low, high = rounded_count(min(numbers)), rounded_count(max(numbers))
    return low if low == high else f"{low} to {high}"
