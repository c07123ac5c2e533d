"""The answers of runs that somebody already has, part by part and size by size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from statistics import median

from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Optimum
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
from fathom.search.formatting import format_count, printable, ranges, rounded_count
from fathom.search.records import TrialRecord
from fathom.search.tables.errors import NothingAsked, TableError
from fathom.search.tables.grouped.counted import (
    CountedRuns,
    count_runs,
    layers_note,
    unknown_settings,
)
from fathom.search.tables.grouped.horizons import Horizon
from fathom.search.tables.grouped.sizes import runs_near, size_classes
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
from fathom.search.tables.held.sizes import Held, held_answers, held_coin, offered_coin
from fathom.search.tables.parts import differences
from fathom.search.tables.question import SEED, TableFindings, TableQuestion
from fathom.search.tables.runs import Run, Runs

WIDER = (0.15, 0.2, 0.3)
"""Values of --width that a note suggests if no size has three depths at the usual one."""
MOST_SIZES = 5000
"""Largest number of different sizes that are grouped into budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """The runs near one size, and the tokens at which they are compared."""

    size: int
    near: tuple[Run, ...]
    tokens: float
    counted: CountedRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRuns:
    """The runs of a table, or of a part of a table, and the question about them."""

    runs: Runs
    question: TableQuestion
    count: Count
    label: str
    columns: Mapping[str, str]
    """Fathom's name of each column -> the table's own name."""
    part: Mapping[str, str]
    """Column -> the value that all runs of this part share; empty for a whole table."""
    unit: Unit = NATS
    """Unit of the losses in the table; those of `runs` are converted to nats."""

    @property
    def noise(self) -> float | None:
        """Noise between seeds, nats, if it was stated."""
        stated = self.question.noise
        return None if stated is None else stated * self.unit.nats


_Answers = tuple[tuple[TableFindings, ...], tuple[str, ...]]
"""Findings, one for each horizon of each part, and notes on what was decided."""


def answers_of(asked: AskedRuns) -> _Answers:
    """Answers of the runs, part by part.

    Raises:
        TableError: when the table has no run of the sizes or horizons asked for, or a setting
            varies in a way that leaves open how to compare the runs.
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


def _coin_held(asked: AskedRuns) -> Coin | None:
    """The quantity that models of all sizes spent equally; None if models of one size are
    compared."""
    question = asked.question
    if question.at or question.budgets or question.horizons:
        return question.at
    return held_coin(asked.runs.runs, asked.count, question.width)


def _answers_at(coin: Coin, asked: AskedRuns) -> _Answers:
    """The best size at each amount of `coin`, and the best depth if depth varies separately from
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
        best = min((run for run in held.runs if len(run.losses)), key=lambda run: run.losses[-1])
        size = (
            f"{best.depth} at {rounded_count(best.params(asked.count))}, which has the lowest loss"
        )
        notes.append(f"each size has one depth ({size}), so depth is not shown apart from size")
    return found, tuple(notes)


def _outside(asked: AskedRuns, classes: Mapping[int, Sequence[Run]]) -> Iterator[str]:
    """Yields notes on how many runs are near a size that has an answer, and on a larger --width at
    which three depths share a size."""
    runs = len(asked.runs.runs)
    inside = len({id(run) for near in classes.values() for run in near})
    if asked.question.budgets:
        return
    if inside < runs:
        yield (
            f"{inside} of {runs} runs count: the others are of a size that too few depths share "
            f"within {asked.question.width:.0%} (--width)"
        )
    by_depth = partial(
        size_classes, asked.runs.runs, asked.count, fewest=ENOUGH_DEPTHS, kind=attrgetter("depth")
    )
    if not by_depth(asked.question.width):
        for width in WIDER:
            if found := by_depth(width):
                depths = ranges(sorted({run.depth for run in found[0]}))
                yield f"no three depths share a size; --width {width} compares depths {depths}"
                return


def _case_notes(asked: AskedRuns, cases: Sequence[_Case]) -> Iterator[str]:
    """Yields notes on the runs that count for the answers, and on depths whose layers are unequal
    in parameters though their total size is equal."""
    for case in cases:
        yield from case.counted.note
        yield from layers_note(case.near, asked.count, case.size, asked.columns)


def _check_horizons(asked: AskedRuns) -> None:
    """Raises `NothingAsked` for horizons in a quantity that the runs do not count."""
    coin, remedy = asked.runs.coin, "name the column with --map COLUMN=tokens, or drop `--horizon`"
    for horizon in asked.question.horizons:
        if not coin:
            raise NothingAsked(
                f"`--horizon {horizon.text}` needs a column of tokens, and {asked.label} has none; "
                f"{remedy}"
            )
        if horizon.per_parameter and coin is not Coin.TOKENS:
            raise NothingAsked(
                f"`--horizon {horizon.text}`, tokens per parameter, needs a column of tokens, and "
                f"{asked.label} has {coin} alone; {remedy}"
            )


def _part_by(name: str, asked: AskedRuns) -> _Answers:
    """The answers of the runs at each value of a setting, and a note for each value without an
    answer."""
    runs, findings, notes = asked.runs, list[TableFindings](), list[str]()
    problem = None
    for value in sorted({value_of(run, name) for run in runs.runs}, key=in_order):
        part = {**asked.part, name: value}
        own = tuple(run for run in runs.runs if value_of(run, name) == value)
        try:
            found, decided = answers_of(replace(asked, runs=replace(runs, runs=own), part=part))
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
    asked: AskedRuns, classes: Mapping[int, Sequence[Run]], horizon: Horizon | None
) -> Iterator[tuple[_Case, Decision]]:
    """Yields the runs of each size at a horizon, with the decision on their settings."""
    said = asked.question.columns
    for size, near in classes.items():
        tokens = horizon.tokens(size) if horizon else full_horizon(near)
        there = [run for run in near if loss_at(run, tokens) is not None]
        if there:
            if horizon is None and TOKENS not in said and tokens_differ(near):
                raise refusal(asked.label, size, near, [TOKENS], asked.columns)
            decision = Decision()
            if len({run.depth for run in there}) >= ENOUGH_DEPTHS:  # else nothing is settled
                decision = decide(
                    there, asked.runs.settings, said, size=size, label=asked.label,
                    columns=asked.columns, shaped=asked.runs.shaped,
                )  # fmt: skip
            kept = tuple(run for run in near if decision.holds(run))
            counted = count_runs(kept, size, Spend(tokens, asked.runs.coin))
            yield _Case(size=size, near=kept, tokens=tokens, counted=counted), decision


def _classes(asked: AskedRuns) -> dict[int, Sequence[Run]]:
    """Size of each budget -> the runs near that size."""
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
    got = f"depth {depths[0]} alone; add others"
    if len(depths) > 1:
        got = (
            f"depths {ranges(depths)} from {_spanned(sizes)} {count.unit_in_full}, no two of them "
            f"at one size; train more at one size, or widen --width{offered_coin(runs, count)}"
        )
    rule = f"must have models of several depths at one size, within {question.width:.0%}"
    raise NothingAsked(f"{label} {rule}, got {got}")


def _middle(runs: Sequence[Run], count: Count) -> int:
    """The median size of runs, to three digits."""
    return int(float(f"{median(run.params(count) for run in runs):.3g}"))


def _findings(
    asked: AskedRuns, horizon: Horizon | None, cases: Sequence[tuple[_Case, Decision]]
) -> TableFindings:
    if not cases:
        runs = asked.runs
        ends = [at for run in runs.runs for at in run.tokens[[0, -1]].tolist() if len(run.tokens)]
        raise NothingAsked(
            f"`--horizon` must be {runs.coin} that the runs of a budget reach, "
            f"{_spanned(ends)}, got {horizon.text if horizon else 'none'}; choose such a horizon"
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
    budget: TableBudget, case: _Case, confound: Confounded | None, asked: AskedRuns
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
    """What the user can do about `cause`, which keeps the table from an answer."""
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
