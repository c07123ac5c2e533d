"""The answers of a table: the statistics of a search on runs that somebody already has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from operator import attrgetter
from statistics import median

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer.optimum import BestSize, Optimum, find_optimum
from fathom.search.analysis.answer.verdict import (
    Advice,
    Confounded,
    FewRuns,
    Kind,
    OneValue,
    Remedy,
    TooFewDepths,
    UnknownSettings,
    Verdict,
)
from fathom.search.analysis.losses.scaled_shape import with_scaled
from fathom.search.conclusion.findings import Findings
from fathom.search.conclusion.token_laws import PartLaw, token_laws_of
from fathom.search.formatting import format_count, printable, ranges, rounded_count
from fathom.search.records import TrialRecord
from fathom.search.scheduling.offers import MANY, Offer, asked_depths, may_gain, offers
from fathom.search.scheduling.trained_depths import TrainingLimits
from fathom.search.study.keys.groups import ConfirmConfig
from fathom.search.tables.columns.cells import EXPLODED, read_cells
from fathom.search.tables.columns.columns import Columns, as_argument, choose_columns, listed
from fathom.search.tables.columns.selecting import ended_rows, rows_where, their_name
from fathom.search.tables.columns.settings import settings_of, to_read, with_whole_batches
from fathom.search.tables.errors import NothingAsked, TableError
from fathom.search.tables.grouped.choosing import swept_notes
from fathom.search.tables.grouped.counted import (
    CountedRuns,
    count_runs,
    layers_note,
    unknown_settings,
)
from fathom.search.tables.grouped.grouping import group_runs
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.grouped.losses import (
    check_loss_name,
    in_nats,
    name_notes,
    plausible,
    positive_losses,
    unit_of,
    unit_to_maximise,
)
from fathom.search.tables.grouped.sizes import WIDTH, runs_near, size_classes
from fathom.search.tables.grouped.trials import (
    ENOUGH_DEPTHS,
    TableBudget,
    full_horizon,
    loss_at,
    table_budget,
)
from fathom.search.tables.grouped.varying import (
    TOKENS,
    Decision,
    decide,
    in_order,
    refusal,
    tokens_differ,
    value_of,
)
from fathom.search.tables.held.sizes import Held, held_answers, held_coin
from fathom.search.tables.open_table import OpenTable
from fathom.search.tables.parts import differences
from fathom.search.tables.runs import Run, Runs
from fathom.search.tables.searches.answer import answer_search
from fathom.search.tables.searches.axes import Drawn, drawn_settings
from fathom.search.tables.searches.importance import Importance
from fathom.search.words import table_reason, table_remedy

STEPS_NOTE = ("horizons are in steps, which must be of as many tokens in every run",)
SEED = 0
"""Seed of the bootstrap."""
MOST_SIZES = 5000
"""Most different sizes among which classes are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question to a table."""

    count: Count | None = None
    """Parameters that a size counts; None for those that the table has, in total first."""
    budgets: Sequence[int] = ()
    """Sizes; without any, those around which the table has most depths."""
    width: float = WIDTH
    """How far a size may be from a budget, as a share of it."""
    horizons: Sequence[Horizon] = ()
    """Without any, the tokens that the runs of each size have in common."""
    noise: float | None = None
    """Noise between seeds, in the table's unit, as stated by the person who asks; None to measure
    it."""
    unit: str = ""
    """Name of the unit of the losses; empty for that which their column's name says, or nats."""
    tokens_per_byte: float | None = None
    """Tokens for each byte, or character, that a loss of such a unit is divided by; None for the
    usual ones."""
    maximise: bool = False
    """True if more is better."""
    at: Coin | None = None
    """What models of any size are compared at an equal amount of; None for models of one size,
    unless the table says that all runs have spent as much."""
    best_of: Sequence[str] = ()
    """Columns of settings of which the best value of each shape counts."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Column -> the value of the rows that are used."""
    by: Sequence[str] = ()
    """Columns each of whose values has answers of its own."""

    @property
    def said(self) -> bool:
        """True if the question states how to treat settings or which horizon to use."""
        return bool(self.best_of or self.by or self.horizons)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the question names."""
        return (*self.best_of, *self.where, *self.by)


@dataclass(frozen=True, kw_only=True)
class TableFindings(Findings):
    """Findings from a table for several sizes at one horizon."""

    table: str
    counted: Count
    horizon: Horizon | None = None
    """The horizon that was asked for; None for the tokens that the runs have in common."""
    best_size: BestSize | None = None
    """The best size, where models of any size are compared at an equal amount; `optima` have the
    best depth there, if it is shown apart from size."""

    @property
    def horizon_text(self) -> str:
        """The horizon that was asked for, or the horizon of the first answer."""
        ratio = self.horizon is not None and self.horizon.per_parameter
        return self.horizon.text if self.horizon and ratio else super().horizon_text

    @property
    def title(self) -> str:
        """The name of the table in messages."""
        return ", ".join((self.table, *(part for part in [self.part_text] if part)))

    @property
    def count(self) -> Count:
        """Rule by which sizes are counted."""
        return self.counted

    @property
    def seed(self) -> int:
        """Seed of the statistics, the same for every table."""
        return SEED

    def offers(self, optimum: Optimum, noise: float | None = None) -> tuple[Offer, ...]:
        """Next trainings of a search with default settings and these runs, at their rates; `noise`
        is in the table's unit."""
        if self.best_size or self.searched or not may_gain(optimum):
            return ()
        noise = noise and noise * optimum.unit.nats
        records = self.records_of(optimum.budget)
        limits = TrainingLimits(
            confirm=ConfirmConfig(depths=MANY, seeds=MANY, rates=(1.0,)),
            shapes=with_scaled({record.spec.shape: None for record in records}),
            first_seed=0,
            asked=asked_depths(optimum),
        )
        return offers(records, limits, noise=noise)

    def reason(self, optimum: Optimum) -> str:
        """Returns the reason of a verdict, with the runs that would settle it."""
        return table_reason(optimum.verdict, optimum.unit)

    def remedy(self, optimum: Optimum) -> str:
        """Returns which runs to add for a settled answer; empty where none are needed."""
        return table_remedy(optimum.verdict)


@dataclass(frozen=True, kw_only=True)
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
    """Noise between seeds that was stated, in the table's unit."""
    findings: tuple[Findings, ...]
    """One for each horizon that was asked for."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Column -> the value of the rows that were used, as asked for."""
    importances: tuple[Importance, ...] = ()
    """How much each setting matters, the most first, if the table is of a search of settings."""

    @property
    def optima(self) -> tuple[Optimum, ...]:
        """The answer for each size, ascending, at the first horizon that was asked for."""
        return self.findings[0].optima

    @property
    def sizes(self) -> tuple[tuple[str, BestSize], ...]:
        """The best size of each part of a table at each amount that models of any size spent."""
        found = (each for each in self.findings if isinstance(each, TableFindings))
        return tuple((each.part_text, each.best_size) for each in found if each.best_size)

    @cached_property
    def token_laws(self) -> tuple[PartLaw, ...]:
        """The laws over parameters and tokens, one for each part that has one."""
        return token_laws_of(self.findings)


def analyse_table(table: OpenTable, told: Mapping[str, str], question: TableQuestion) -> Analysis:
    """The answers of a table; `told` maps names of its columns to ours.

    Raises:
        TableError: when the table does not have what it takes, or what is asked.
    """
    columns = choose_columns(table.names, told, table.label, table.lacking)
    loss, said = columns.taken["loss"], "loss" in told.values()
    maximised = question.maximise or table.maximised == loss
    check_loss_name(loss, table.label, maximised=maximised)
    question = _named(question, table, columns)
    others = to_read(table.names, columns, table.results, question.columns)
    cells = read_cells(table, columns, others, largest=inf if maximised else EXPLODED)
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
    drawn = None if question.said else drawn_settings(runs, count)
    importances: tuple[Importance, ...] = ()
    if drawn is None:
        findings, decided = _answers(
            _Asked(runs=runs, question=question, count=count, label=table.label,
                   columns=columns.taken, part={}, unit=unit)
        )  # fmt: skip
    else:
        findings, decided, importances = _search_answers(
            drawn, runs, question, count, table.label, unit
        )
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


def _search_answers(
    drawn: Drawn, runs: Runs, question: TableQuestion, count: Count, label: str, unit: Unit
) -> tuple[tuple[TableFindings, ...], tuple[str, ...], tuple[Importance, ...]]:
    """The answers of a table whose settings were drawn, what was decided, and how much each
    setting matters at the first size."""
    sizes: Sequence[int | None] = sorted(set(question.budgets)) or [None]
    answers = [
        answer_search(
            drawn, count=count, coin=runs.coin, label=label, width=question.width, size=size
        )
        for size in sizes
    ]
    findings = TableFindings(
        table=label,
        counted=count,
        searched=True,
        records=tuple(record for answer in answers for record in answer.records),
        optima=tuple(replace(answer.optimum, unit=unit) for answer in answers),
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
    """Yields which columns of several values were taken for names."""
    if names:
        yield f"taken for names and results, not for settings: {listed(names)}"


def _column_notes(columns: Columns, count: Count) -> Iterator[str]:
    """Yields what the columns leave to be assumed."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """The runs about a size, and the tokens at which they are compared."""

    size: int
    near: tuple[Run, ...]
    tokens: float
    counted: CountedRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The runs of a table, or of a part of it, and what is asked of them."""

    runs: Runs
    question: TableQuestion
    count: Count
    label: str
    columns: Mapping[str, str]
    """Our name -> the table's own."""
    part: Mapping[str, str]
    """Column -> the value that the runs have in common, where they are a part."""
    unit: Unit = NATS
    """Unit in which the table has the losses, which are in nats here."""

    @property
    def noise(self) -> float | None:
        """Noise between seeds, nats, if it was stated."""
        stated = self.question.noise
        return None if stated is None else stated * self.unit.nats


_Answers = tuple[tuple[TableFindings, ...], tuple[str, ...]]
"""Findings, one for each horizon of each part, and what was decided, as sentences."""


def find_answers(
    runs: Runs, question: TableQuestion, count: Count, label: str
) -> tuple[TableFindings, ...]:
    """Answers of runs at each horizon of a question, or at the horizon that they share.

    Raises:
        TableError: when they have nothing of what is asked.
    """
    asked = _Asked(runs=runs, question=question, count=count, label=label, columns={}, part={})
    return _answers(asked)[0]


def _answers(asked: _Asked) -> _Answers:
    """Answers of the runs, part by part.

    Raises:
        TableError: when the table has nothing of what is asked, or leaves open what a setting that
            varies is for.
    """
    question = asked.question
    if parting := [name for name in question.by if name not in asked.part]:
        return _part_by(parting[0], asked)
    if (coin := _coin_held(asked)) is not None:
        return _answers_at(coin, asked)
    classes = _classes(asked)
    _check_horizons(asked)
    horizons: Sequence[Horizon | None] = question.horizons or (None,)
    cases = {at: list(_cases(asked, classes, at)) for at in horizons}
    decisions = [decision for found in cases.values() for _, decision in found]
    if apart := next((name for decision in decisions for name in decision.apart), None):
        by = replace(question, by=(*question.by, apart))
        findings, notes = _part_by(apart, replace(asked, question=by))
        name = printable(apart)
        note = f"each value of {name} has answers of its own, since every shape has all values"
        return findings, (*dict.fromkeys((note, *notes)),)
    findings = tuple(_findings(asked, at, found) for at, found in cases.items())
    decided = [note for decision in decisions for note in decision.notes]
    counted = _case_notes(asked, [case for found in cases.values() for case, _ in found])
    return findings, (*_outside(asked, classes), *dict.fromkeys([*decided, *counted]))


def _coin_held(asked: _Asked) -> Coin | None:
    """The coin that models of any size spent equally; None for models of one size."""
    question = asked.question
    if question.at or question.budgets or question.horizons:
        return question.at
    return held_coin(asked.runs.runs, asked.count, question.width)


def _answers_at(coin: Coin, asked: _Asked) -> _Answers:
    """The best size at each amount of a coin, and the best depth if it can be told apart from the
    size."""
    held = Held(
        runs=asked.runs.runs, coin=coin, count=asked.count, unit=asked.unit, noise=asked.noise,
        seeded=asked.runs.seeded, label=asked.label,
    )  # fmt: skip
    found = tuple(
        TableFindings(
            table=asked.label,
            counted=asked.count,
            part=asked.part,
            records=answer.records,
            optima=(answer.depth,) if answer.depth else (),
            best_size=answer.size,
        )
        for answer in held_answers(held, asked.runs.settings, asked.question.columns)
    )
    notes = [f"models of any size are compared at equal {coin}"]
    if not all(findings.optima for findings in found):
        notes.append("each size has one depth, so depth is not shown apart from size")
    return found, tuple(notes)


def _outside(asked: _Asked, classes: Mapping[int, Sequence[Run]]) -> Iterator[str]:
    """Yields how many runs belong to none of the sizes that have an answer."""
    runs = len(asked.runs.runs)
    inside = len({id(run) for near in classes.values() for run in near})
    if inside < runs and not asked.question.budgets:
        yield (
            f"{inside} of {runs} runs count: the others are of a size that too few depths share "
            f"within {asked.question.width:.0%} (--width)"
        )


def _case_notes(asked: _Asked, cases: Sequence[_Case]) -> Iterator[str]:
    """Yields which runs count for the answers, and what depths of one size differ by besides."""
    for case in cases:
        yield from case.counted.note
        yield from layers_note(case.near, asked.count, case.size, asked.columns)


def _check_horizons(asked: _Asked) -> None:
    """Raises `NothingAsked` for horizons that the runs do not count."""
    coin, remedy = asked.runs.coin, "name them with --map COLUMN=tokens, or drop it"
    for horizon in asked.question.horizons:
        if not coin:
            raise NothingAsked(
                f"`--horizon` needs a column of tokens, got {horizon.text}, and {asked.label} has "
                f"none; {remedy}"
            )
        if horizon.per_parameter and coin is not Coin.TOKENS:
            raise NothingAsked(
                f"`--horizons` of tokens a parameter need a column of tokens, got {horizon.text}, "
                f"and {asked.label} has {coin} alone; {remedy}"
            )


def _part_by(name: str, asked: _Asked) -> _Answers:
    """The answers of the runs at each value of a setting; a value that has none is noted."""
    runs, findings, notes = asked.runs, list[TableFindings](), list[str]()
    problem = None
    for value in sorted({value_of(run, name) for run in runs.runs}, key=in_order):
        part = {**asked.part, name: value}
        own = tuple(run for run in runs.runs if value_of(run, name) == value)
        try:
            found, decided = _answers(replace(asked, runs=replace(runs, runs=own), part=part))
        except NothingAsked as error:
            problem = error
            where = f"{printable(name)}={printable(value) or 'nothing'}"
            notes.append(f"no answer for {where}: {error}")
        else:
            findings += found
            notes += decided
    if problem is not None and not findings:
        raise problem
    if not asked.part:
        notes += differences(findings, asked.question.width, asked.noise)
    return tuple(findings), tuple(dict.fromkeys(notes))


def _cases(
    asked: _Asked, classes: Mapping[int, Sequence[Run]], horizon: Horizon | None
) -> Iterator[tuple[_Case, Decision]]:
    """Yields the runs of each size that a horizon has, with what is decided of their settings."""
    said = asked.question.columns
    for size, near in classes.items():
        tokens = horizon.tokens(size) if horizon else full_horizon(near)
        there = [run for run in near if loss_at(run, tokens) is not None]
        if there:
            if horizon is None and TOKENS not in said and tokens_differ(near):
                raise refusal(asked.label, size, near, [TOKENS], asked.columns)
            decision = decide(
                there, asked.runs.settings, said, size=size, label=asked.label,
                columns=asked.columns, shaped=asked.runs.shaped,
            )  # fmt: skip
            kept = tuple(run for run in near if decision.holds(run))
            counted = count_runs(kept, size, Spend(tokens, asked.runs.coin))
            yield _Case(size=size, near=kept, tokens=tokens, counted=counted), decision


def _classes(asked: _Asked) -> dict[int, Sequence[Run]]:
    """Budget -> the runs about its size, by budget."""
    runs, question, count, label = asked.runs.runs, asked.question, asked.count, asked.label
    sizes = [run.params(count) for run in runs]
    found: dict[int, Sequence[Run]] = {}
    for size in sorted(set(question.budgets)):
        found[size] = runs_near(runs, size, count, question.width)
        if not found[size]:
            raise NothingAsked(
                f"`--params` must be a size of {label} within {question.width:.0%}, got "
                f"{format_count(size)}; it has {_spanned(sizes)} {count.unit_in_full}"
            )
    if found:
        return found
    if len(set(sizes)) > MOST_SIZES:
        raise TableError(
            f"{label} has {len(set(sizes))} different sizes, and sizes are grouped into budgets "
            f"only up to {MOST_SIZES}; name the sizes with --params"
        )
    for fewest in (ENOUGH_DEPTHS, 2):
        classes = size_classes(runs, count, question.width, fewest=fewest, kind=attrgetter("depth"))
        if classes:
            return {_middle(members, count): members for members in classes}
    depths = sorted({run.depth for run in runs})
    raise NothingAsked(
        f"{label} must have models of several depths at one size, within {question.width:.0%}, got "
        f"depths {ranges(depths)} from {_spanned(sizes)} {count.unit_in_full}, no two of them at "
        "one size; train them so, or widen --width"
    )


def _middle(runs: Sequence[Run], count: Count) -> int:
    """The median size of runs, to three digits."""
    return int(float(f"{median(run.params(count) for run in runs):.3g}"))


def _findings(
    asked: _Asked, horizon: Horizon | None, cases: Sequence[tuple[_Case, Decision]]
) -> TableFindings:
    if not cases:
        runs = asked.runs
        ends = [at for run in runs.runs for at in run.tokens[[0, -1]].tolist() if len(run.tokens)]
        raise NothingAsked(
            f"`--horizon` must be {runs.coin} that the runs of a budget reach, "
            f"{_spanned(ends)}, got {horizon.text if horizon else 'none'}"
        )
    records: list[TrialRecord] = []
    optima: list[Optimum] = []
    for case, decision in cases:
        budget = table_budget(
            asked.runs.runs, case.near, params=case.size, count=asked.count, tokens=case.tokens,
            table=asked.label, rates=decision.rates, noise=asked.noise,
        )  # fmt: skip
        records += budget.records
        optima.append(_optimum(budget, case, decision.confound, asked))
    return TableFindings(
        table=asked.label,
        counted=asked.count,
        horizon=horizon,
        part=asked.part,
        records=tuple(records),
        optima=tuple(optima),
    )


def _optimum(
    budget: TableBudget, case: _Case, confound: Confounded | None, asked: _Asked
) -> Optimum:
    found = find_optimum(
        budget.records,
        seed=SEED,
        noise=asked.noise,
        errors=budget.errors,
        trained=False,  # nothing can be trained, so the curve says which depth is best
    )
    slope = found.params_slope if budget.slope is None else budget.slope
    verdict = found.verdict
    cause: Confounded | FewRuns | UnknownSettings | None = confound or case.counted.cause
    if cause is None and not asked.runs.seeded:
        cause = unknown_settings(case.near, case.tokens, asked.count, case.size)
    if cause is not None and not isinstance(verdict.cause, TooFewDepths):
        verdict = Verdict(Kind.INSUFFICIENT, cause, _remedy(cause, case.counted))
    # A table need not say what heads and ratio its shapes have: no whole shape is its answer.
    return replace(
        found, verdict=verdict, shared_spend=Spend(found.tokens, asked.runs.coin),
        params_slope=slope, shape=None, best_ff_ratio=None, unit=asked.unit,
    )  # fmt: skip


def _remedy(cause: Confounded | FewRuns | UnknownSettings, counted: CountedRuns) -> Remedy:
    """The remedy of what a table lacks."""
    match cause:
        case Confounded(setting):
            return OneValue(setting)
        case FewRuns():
            return Advice.SAME_TOKENS if counted.elsewhere else Advice.LOWER_LEARNING_RATE
        case UnknownSettings():
            return Advice.NAME_SETTINGS


def _spanned(numbers: Sequence[float]) -> str:
    low, high = rounded_count(min(numbers)), rounded_count(max(numbers))
    return low if low == high else f"{low} to {high}"
