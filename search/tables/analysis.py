"""The answers of a table: the statistics of a search on runs that somebody already has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from fathom.models.shape import Count
from fathom.models.spend import Coin
from fathom.search.analysis.answer.optimum import BestSize, Optimum
from fathom.search.conclusion.findings import Findings
from fathom.search.conclusion.token_laws import PartLaw, token_laws_of
from fathom.search.formatting import printable
from fathom.search.tables.answers import AskedRuns, answers_of
from fathom.search.tables.columns.cells import EXPLODED, read_cells
from fathom.search.tables.columns.columns import (
    Columns,
    as_argument,
    choose_columns,
    is_perplexity,
    listed,
)
from fathom.search.tables.columns.selecting import ended_rows, rows_where, their_name
from fathom.search.tables.columns.settings import settings_of, to_read, with_whole_batches
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.choosing import swept_notes
from fathom.search.tables.grouped.grouping import group_runs
from fathom.search.tables.grouped.losses import (
    check_loss_name,
    in_nats,
    logarithms,
    name_notes,
    plausible,
    positive_losses,
    unit_of,
    unit_to_maximise,
)
from fathom.search.tables.open_table import OpenTable
from fathom.search.tables.question import TableFindings, TableQuestion
from fathom.search.tables.searches.answer import answer_search
from fathom.search.tables.searches.axes import drawn_settings
from fathom.search.tables.searches.importance import Importance

STEPS_NOTE = ("horizons are in steps, which must be of as many tokens in every run",)


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The answers of a table or a run folder, with notes on how it was read."""

    label: str
    rows: int
    """Rows of a table, trials of a run folder."""
    columns: Mapping[str, str]
    """Fathom's name of each column -> the table's own name; empty for a run folder."""
    runs: int
    shapes: int
    notes: tuple[str, ...]
    """Which columns were taken for what, and what was assumed or left out, without full stops."""
    noise: float | None
    """Noise between seeds as the user stated it, in the table's unit; None if not stated."""
    findings: tuple[Findings, ...]
    """The findings at each horizon that was asked for."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Column -> the value that --where asks for; only rows with that value are used."""
    importances: tuple[Importance, ...] = ()
    """How much each setting matters, largest first; empty unless settings were searched at
    random."""

    @property
    def optima(self) -> tuple[Optimum, ...]:
        """The answer for each size, ascending, at the first horizon that was asked for."""
        return self.findings[0].optima

    @property
    def sizes(self) -> tuple[tuple[str, BestSize], ...]:
        """Part of the table and its best size, at each amount of compute, time or tokens spent
        equally."""
        found = (each for each in self.findings if isinstance(each, TableFindings))
        return tuple((each.part_text, each.best_size) for each in found if each.best_size)

    @cached_property
    def token_laws(self) -> tuple[PartLaw, ...]:
        """The laws over parameters and tokens, one for each part that has one."""
        return token_laws_of(self.findings)


def analyse_table(table: OpenTable, told: Mapping[str, str], question: TableQuestion) -> Analysis:
    """The answers of a table; `told` maps the table's names of columns to Fathom's.

    Raises:
        TableError: when the table lacks what every analysis needs, or what the question needs.
    """
    columns = choose_columns(table.names, told, table.label, table.lacking)
    loss, said = columns.taken["loss"], "loss" in told.values()
    maximised = question.maximise or table.maximised == loss
    check_loss_name(loss, table.label, maximised=maximised)
    question = _named(question, table, columns)
    others = to_read(table.names, columns, table.results, question.columns)
    in_perplexity = is_perplexity(loss) and not (maximised or question.unit)
    any_size = maximised or in_perplexity
    cells = read_cells(table, columns, others, largest=inf if any_size else EXPLODED)
    cells = logarithms(cells) if in_perplexity else cells
    cells, unended = ended_rows(rows_where(cells, question.where, table.label))
    cells, no_losses = (cells, ()) if maximised else positive_losses(cells, table.label)
    cells = with_whole_batches(cells, question.columns)
    settings = settings_of(cells, question.columns)
    runs = group_runs(
        cells, table.label, settings.names, settings.shaped, with_names=bool(settings.left)
    )
    if maximised:
        unit = unit_to_maximise(runs.runs, loss, question.noise)
    else:
        unit = unit_of(loss, question.unit, question.tokens_per_byte)
        runs = plausible(runs, loss, table.label, unit, said=said)
    runs = in_nats(runs, unit)
    count = budget_count(question, columns, table.label)
    findings, decided, importances = _answers(
        AskedRuns(
            runs=runs, question=question, count=count, label=table.label, columns=columns.taken,
            part={}, unit=unit,
        )
    )  # fmt: skip
    return Analysis(
        label=table.label,
        rows=cells.rows,
        columns=columns.taken,
        runs=len(runs.runs),
        shapes=len({run.shape for run in runs.runs}),
        notes=(
            *table.notes,
            *_column_notes(columns, count),
            *name_notes(loss, unit, said=said),
            *no_losses,
            *runs.notes,
            *([unended] if unended else []),
            *decided,
            *swept_notes(runs.runs),
            *_left_note((*settings.left, *settings.shaped)),
            *STEPS_NOTE * (runs.coin is Coin.STEPS),
        ),
        noise=question.noise,
        findings=findings,
        held=dict(question.where),
        importances=importances,
    )


def _answers(
    asked: AskedRuns,
) -> tuple[tuple[TableFindings, ...], tuple[str, ...], tuple[Importance, ...]]:
    """Findings and notes of a table; with the importances of its settings at the smallest size if
    they were drawn at random, otherwise without any."""
    question, count, label, coin = asked.question, asked.count, asked.label, asked.runs.coin
    drawn = None if question.said else drawn_settings(asked.runs, count)
    if drawn is None:
        return (*answers_of(asked), ())
    sizes: Sequence[int | None] = sorted(set(question.budgets)) or [None]
    answers = [
        answer_search(drawn, count=count, coin=coin, label=label, width=question.width, size=size)
        for size in sizes
    ]
    findings = TableFindings(
        table=label,
        counted=count,
        searched=True,
        records=tuple(record for answer in answers for record in answer.records),
        optima=tuple(replace(answer.optimum, unit=asked.unit) for answer in answers),
    )
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    return (findings,), tuple(notes), answers[0].importances


def _named(question: TableQuestion, table: OpenTable, columns: Columns) -> TableQuestion:
    """The question with the table's own names of columns."""

    def theirs(name: str, flag: str) -> str:
        return their_name(name, flag, table.names, columns.taken, table.label)

    return replace(
        question,
        best_of=tuple(theirs(name, "--best-of") for name in question.best_of),
        where={theirs(name, "--where"): value for name, value in question.where.items()},
        by=tuple(theirs(name, "--by") for name in question.by),
    )


def _left_note(names: Sequence[str]) -> Iterator[str]:
    """Yields a note on the columns of several values that were taken for names."""
    if names:
        yield f"taken for names and results, not for settings: {listed(names)}"


def _column_notes(columns: Columns, count: Count) -> Iterator[str]:
    """Yields notes on what is assumed where no column states it."""
    taken = columns.taken
    for ours, others in columns.passed_over.items():
        yield f"{ours} might also be {listed(others)}; --map says which"
    if "train" in taken["loss"].lower():
        yield "the loss is that of training: held-out losses may rank depths otherwise"
    if not {"params_total", "params_non_embedding"} & set(taken):
        formula = "depth (4 d_model² + 2 d_model d_ff)" if "d_ff" in taken else "12 depth d_model²"
        width = "" if "d_model" in taken else f", with d_model as depth {taken['aspect_ratio']}"
        yield f"no column has the size: it is estimated, without the embedding, as {formula}{width}"
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
        TableError: when the table has no sizes counted by the rule that is asked for.
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
