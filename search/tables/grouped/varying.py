"""Decides how to treat settings that vary among the runs of one size, as far as the table
allows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from fathom.search.analysis.answer.verdict import Confounded
from fathom.search.formatting import format_count, printable, ranges, rounded_count
from fathom.search.tables.columns.cells import Texts
from fathom.search.tables.columns.columns import as_argument
from fathom.search.tables.columns.settings import is_head, is_regime
from fathom.search.tables.errors import TableError
from fathom.search.tables.runs import Run

CLOSE = 1.25
"""Factor up to which two values of a setting count as equal: a setting that depends on the size,
such as warmup for 1 % of the steps, varies that much within a size class."""
CLOSE_TOKENS = 1.05
"""`CLOSE` for the tokens of final losses: 5 % more tokens change a loss by 0.01 nats."""
ROUNDED = 1.5
"""Largest factor between ratios of model width to heads that counts as one ratio, rounded."""
ENOUGH = 3
"""Fewest depths to which a curve can be fitted."""
MOST_FLAGS = 2
"""Largest number of flags that a message names, the best ones first."""
SHOWN = 4
"""Largest number of values of a setting that a message names."""
RATE = "learning_rate"
TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision about the settings that vary among the runs of one size."""

    apart: tuple[str, ...] = ()
    """Settings whose values get separate answers: they change the question, and every shape has all
    of their values."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Setting -> the one value that every shape has; runs with another value are left out."""
    rates: bool = False
    """True if the best learning rate of each shape counts, because the question says so."""
    confound: Confounded | None = None
    """The cause of a verdict if a setting still varies together with depth after these
    decisions."""
    notes: tuple[str, ...] = ()
    """Notes on the decisions that the table allowed, without full stops."""

    def holds(self, run: Run) -> bool:
        """True if a run has the values in `held`."""
        return all(value_of(run, name) == value for name, value in self.held.items())


def decide(
    runs: Sequence[Run], settings: Sequence[str], said: Sequence[str], *, size: int, label: str,
    columns: Mapping[str, str], shaped: Sequence[str] = (),
) -> Decision:  # fmt: skip
    """Decision about the settings that vary among the runs near one size.

    `said` are the columns that the question names; `columns` maps Fathom's names to the table's;
    `shaped` are columns that count as settings only if they vary together with depth.

    Raises:
        TableError: when neither the question nor the table decides how to treat a setting.
    """
    ours = {columns[name]: name for name in (RATE, TOKENS) if name in columns}
    told = {*said, *(ours[name] for name in said if name in ours)}
    unsaid = [name for name in settings if name not in told and varies(runs, name)]
    undecided, decision = _by_table(runs, unsaid)
    undecided += [name for name in shaped if name not in told and _splits_depths(runs, name)]
    if RATE not in told and rates_differ(runs):
        undecided.append(RATE)
    if TOKENS not in told and tokens_differ(runs):
        undecided.append(TOKENS)
    if undecided:
        raise refusal(label, size, runs, undecided, columns)
    confound = next(
        (name for name in (*settings, RATE) if name in told and _stands(runs, name)), ""
    )
    return replace(
        decision,
        rates=RATE in told,
        confound=confounded(runs, confound, columns) if confound else None,
    )


def _by_table(runs: Sequence[Run], unsaid: Sequence[str]) -> tuple[list[str], Decision]:
    """The settings that the table leaves undecided, and its decision on the others."""
    shapes: dict[object, set[tuple[str, ...]]] = defaultdict(set)
    for run in runs:
        shapes[run.sized_shape].add(tuple(value_of(run, name) for name in unsaid))
    sets = list(shapes.values())
    if all(values == sets[0] for values in sets):
        apart = tuple(name for name in unsaid if _is_question(runs, name))
        chosen = [printable(name) for name in unsaid if name not in apart]
        note = f"of {' and '.join(chosen)} the best value counts, since every shape has all values"
        return [], Decision(apart=apart, notes=(note,) if chosen else ())
    common = set.intersection(*sets)
    if len(common) == 1:
        held = dict(zip(unsaid, common.pop(), strict=True))
        values = " and ".join(f"{printable(name)}={printable(held[name])}" for name in held)
        note = f"held at {values}, the only value that every shape has"
        return [], Decision(held=held, notes=(note,))
    own = {
        name: {frozenset(values) for values in _by_shape(runs, name).values()} for name in unsaid
    }
    return [name for name in unsaid if len(own[name]) > 1] or list(unsaid), Decision()


def _stands(runs: Sequence[Run], name: str) -> bool:
    """True if a setting that the question names still varies together with depth: depths share no
    range of values, and some shape's best value does not lie between its other values."""
    return goes_with_depth(runs, name) and not _bracketed(runs, name)


def _bracketed(runs: Sequence[Run], name: str) -> bool:
    """True if each shape's best value is a number between other values tried with that shape."""
    shapes: dict[object, dict[float, float]] = defaultdict(dict)
    for run in runs:
        number = Texts.number(value_of(run, name))
        if number is None:
            return False
        losses = shapes[run.sized_shape]
        losses[number] = min(losses.get(number, inf), float(run.losses[-1]))
    return all(
        min(losses) < min(losses, key=lambda number: losses[number]) < max(losses)
        for losses in shapes.values()
    )


def confounded(runs: Sequence[Run], name: str, columns: Mapping[str, str]) -> Confounded:
    """The cause of a verdict that the setting `name` varies together with depth."""
    return Confounded(columns.get(name, name), tuple(depths_by_value(runs, name).items()))


def in_order(value: str) -> tuple[float, str]:
    """Key by which values are sorted: numbers by size, then texts."""
    number = Texts.number(value)
    return (inf if number is None else number), value


def value_of(run: Run, name: str) -> str:
    """A run's value, as text, of a setting, of its learning rate, or of its last tokens."""
    if name in run.settings:
        return run.settings[name]
    if name == RATE:
        return "" if run.learning_rate is None else f"{run.learning_rate:g}"
    return f"{run.tokens[-1]:g}" if len(run.tokens) else ""


def varies(runs: Sequence[Run], name: str) -> bool:
    """True if runs differ in a setting by more than their sizes explain."""
    values = {value_of(run, name) for run in runs}
    return len(values) > 1 and not _close(values) and not (is_head(name) and _by_width(runs, name))


def rates_differ(runs: Sequence[Run]) -> bool:
    """True if the learning rates of shapes aren't comparable: no rate was used for all shapes, and
    not every shape had several to choose from."""
    if not varies(runs, RATE):
        return False
    sets = _by_shape(runs, RATE).values()
    several = all(len(rates) > 1 for rates in sets)
    if set.intersection(*sets) or (several and not goes_with_depth(runs, RATE)):
        return False
    return not _bracketed(runs, RATE)


def tokens_differ(runs: Sequence[Run]) -> bool:
    """True if the tokens of final losses vary with depth by more than the sizes explain."""
    finals = [run for run in runs if len(run.tokens) == 1]
    if len(finals) < len(runs):
        return False
    tokens = [float(run.tokens[-1]) for run in finals]
    sizes = (
        [run.params_total for run in finals],
        [run.params_non_embedding for run in finals],
        [1] * len(finals),
    )
    shares = [[at / size for at, size in zip(tokens, of, strict=True)] for of in sizes]
    if any(max(share) <= CLOSE_TOKENS * min(share) for share in shares):
        return False
    return _no_common_range(_numbers_by_depth(finals, TOKENS), CLOSE_TOKENS)


def goes_with_depth(runs: Sequence[Run], name: str) -> bool:
    """True if a setting varies together with depth: depths share no value or, for numbers, their
    ranges do not all overlap."""
    if not varies(runs, name):
        return False
    numbers = _numbers_by_depth(runs, name)
    if numbers is not None:
        return _no_common_range(numbers, CLOSE)
    depths: dict[int, set[str]] = defaultdict(set)
    for run in runs:
        depths[run.depth].add(value_of(run, name))
    return not set.intersection(*depths.values())


def _splits_depths(runs: Sequence[Run], name: str) -> bool:
    """True if a column varies together with depth but does not merely name it: some depths share a
    value."""
    return goes_with_depth(runs, name) and any(
        len(depths) > 1 for depths in depths_by_value(runs, name).values()
    )


def depths_by_value(runs: Sequence[Run], name: str) -> dict[str, tuple[int, ...]]:
    """Value of a setting -> the depths that have it; numbers are in ascending order."""
    found: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        found[value_of(run, name)].add(run.depth)
    return {value: tuple(sorted(found[value])) for value in sorted(found, key=in_order)}


def refusal(
    label: str, size: int, runs: Sequence[Run], names: Sequence[str], columns: Mapping[str, str]
) -> TableError:
    """The error for settings, at one size, for which neither the question nor the table decides how
    to treat them."""
    name = next((name for name in names if goes_with_depth(runs, name)), names[0])
    values, theirs = depths_by_value(runs, name), columns.get(name, name)
    apart = name == TOKENS or goes_with_depth(runs, name)
    how = "goes with depth" if apart else "differs between shapes"
    flags = [*_flags(runs, name, theirs, values)][:MOST_FLAGS]
    others = [printable(columns.get(other, other)) for other in names if other != name]
    likewise = f"; likewise {' and '.join(others[:SHOWN])}" if others else ""
    return TableError(
        f"{label}: at about {format_count(size)}, {printable(theirs)} {how} "
        f"({_in_words(values)}); {', or '.join(flags)}{likewise}"
    )


def _in_words(values: Mapping[str, Sequence[int]]) -> str:
    """Values of a setting with their depths, as text: `16 at 4, 12; 64 at 16`; if they are many,
    only the first ones and the last."""
    texts = [
        f"{printable(value) or 'nothing'} at {ranges(list(depths))}"
        for value, depths in values.items()
    ]
    if len(texts) > SHOWN:
        texts = [*texts[: SHOWN - 1], f"{len(texts) - SHOWN} more", texts[-1]]
    return "; ".join(texts)


def _flags(
    runs: Sequence[Run], name: str, theirs: str, values: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    """Yields advice on flags that settle how to treat a setting, the best first."""
    column = as_argument(theirs)
    kept = max(values, key=lambda value: len(values[value]))
    hold = f"hold it with --where {column}={as_argument(kept)}"
    if name == TOKENS:
        yield "train them on the same tokens"
        if len(values[kept]) >= ENOUGH and Texts.number(kept):
            yield f"compare those with --horizon {rounded_count(float(kept))}"
        yield f"compare them as they are with --map {column}=ignore"
        return
    if not goes_with_depth(runs, name):
        yield f"choose the best with --best-of {column}"
    if len(values[kept]) >= ENOUGH:
        yield hold
    if is_regime(name) and any(len(depths) >= ENOUGH for depths in values.values()):
        yield f"part the answers with --by {column}"
    elif goes_with_depth(runs, name) and len(values[kept]) < ENOUGH:
        yield "train other depths at one value of it"
    yield f"--map {column}=ignore if it can't matter"


def _is_question(runs: Sequence[Run], name: str) -> bool:
    """True for a setting whose values pose different questions, such as the data, or any text."""
    return is_regime(name) or any(Texts.number(value_of(run, name)) is None for run in runs)


def _by_shape(runs: Sequence[Run], name: str) -> dict[object, set[str]]:
    found: dict[object, set[str]] = defaultdict(set)
    for run in runs:
        found[run.sized_shape].add(value_of(run, name))
    return found


def _by_width(runs: Sequence[Run], name: str) -> bool:
    """True if a setting of heads follows from the model's width: each width has a single value, and
    the ratio of width to value is about the same everywhere."""
    widths: dict[int, set[str]] = defaultdict(set)
    for run in runs:
        widths[run.d_model].add(value_of(run, name))
    numbers = {width: Texts.number(min(values)) for width, values in widths.items()}
    if any(len(values) > 1 for values in widths.values()) or not all(numbers.values()):
        return False
    shares = [width / number for width, number in numbers.items() if number]
    return max(shares) <= ROUNDED * min(shares)


def _numbers_by_depth(runs: Sequence[Run], name: str) -> dict[int, list[float]] | None:
    """Depth -> its values of a setting; None if some values are no numbers."""
    found: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        number = Texts.number(value_of(run, name))
        if number is None:
            return None
        found[run.depth].append(number)
    return found


def _no_common_range(numbers: Mapping[int, Sequence[float]] | None, close: float) -> bool:
    """True if no number lies within the ranges of all depths, nor within a factor `close` of
    them."""
    if not numbers:
        return False
    above, below = max(map(min, numbers.values())), min(map(max, numbers.values()))
    return above > below and not _near(below, above, close)


def _close(values: set[str]) -> bool:
    """True if values are numbers that differ by no more than sizes explain (`CLOSE`)."""
    numbers = [Texts.number(value) for value in values]
    known = [number for number in numbers if number is not None]
    return len(known) == len(numbers) and _near(min(known), max(known), CLOSE)


def _near(low: float, high: float, close: float) -> bool:
    """True if numbers differ by at most a factor of `close`. For shares such as 0.9 and 0.95
    (averages over ten and twenty steps), so must their distances from 1."""
    if low <= 0 or high > close * low:
        return False
    return high > 1 or 1 - low <= close * (1 - high)
