"""Groups the rows of a table into runs: decides which rows are one curve, and which are seeds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fathom.models.spend import Coin
from fathom.search.tables.columns.cells import Cells, Texts, numbered
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.counted import check_repeats
from fathom.search.tables.runs import NO_TIME, Array, Run, Runs

IDENTITY = ("depth", "d_model", "d_ff", "params_total", "params_non_embedding", "seed")
"""Columns that have a single value in each run."""
HAIR = 1e-3
"""Largest relative difference in size that counts as due to norms and biases, not to another
shape."""
SPENT = (Coin.FLOPS, Coin.SECONDS)
"""Quantities that runs spend, for which a table may have a column in addition to tokens."""
SIZES = ("params_total", "params_non_embedding", "d_model")
SAME_AMOUNT = 0.02
"""Largest difference in the logarithm of two amounts that count as the same."""
FEWEST_SIZES, APART = 3, 1.25
"""Fewest sizes at an equal amount, and the least factor between them, to say that it was held
equal."""
NO_CURVES, FEWEST_CURVES = (0.25, 0.75), 8
"""If the share of rising "curves" is between these two, they are no curves but final losses; and
the fewest curves for that test."""
FEW_SHARED = 0.25
"""Largest share of runs with several rows at which all rows count as final losses: with real
curves, nearly all runs have several rows."""
MANY_ROWS = 5
"""Rows for each shape and seed from which on a name that differs in every row is no name of
runs."""
MOSTLY = 0.9
"""Share of the token counts that must occur equally often for the rows to be of several seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """The rows of each run, and the columns that are constant within every run."""

    rows: list[NDArray[np.int64]]
    settings: dict[str, Texts]
    finals: bool
    """True if every row is a final loss, at tokens of its own."""


def group_runs(
    cells: Cells, label: str, settings: Sequence[str] = (), shaped: Sequence[str] = (), *,
    with_names: bool = False,
) -> Runs:  # fmt: skip
    """The runs of a table. `settings` and `shaped` are columns of `cells.texts`; those of `shaped`
    have one value for each shape. `with_names` is True if rows may differ only in a name.

    Raises:
        TableError: when no row has a loss.
    """
    values, notes = cells.values, []
    if cells.blank:
        notes.append(f"{cells.blank} of {cells.rows} rows have no depth or no loss: left out")
    has_size = _has_size(values)
    if not has_size.all():
        notes.append(f"{int((~has_size).sum())} rows have no size: left out")
    if not np.isfinite(values["loss"][has_size]).any():
        raise TableError(
            f"{label} must have at least one row with a depth, a size and a loss that is a "
            f"number, got none among {cells.rows} rows"
        )
    kept = _without_blank_seeds(cells.at(has_size))
    time = _time(kept.values)
    found = _groups(kept, time, [*settings, *shaped], notes)
    runs: list[Run] = []
    for rows in found.rows:
        own = {name: texts.values[texts.codes[rows[0]]] for name, texts in found.settings.items()}
        runs += [replace(run, settings=own) for run in _runs_of(kept.values, rows, time)]
    runs = _of_whole_sizes(runs)
    seeds = kept.values.get("seed")
    seeded = (
        not _repeats(runs, timed=not found.finals)
        and seeds is not None
        and len(set(seeds.tolist())) > 1
    )
    named = with_names or "run" in kept.values
    runs = _told_apart(runs, label, notes, by_seed=seeds is not None, by_name=named)
    return Runs(
        runs=tuple(runs),
        coin={"tokens": Coin.TOKENS, "step": Coin.STEPS}.get(time, Coin.UNKNOWN),
        notes=tuple(notes),
        settings=tuple(name for name in found.settings if name not in shaped),
        shaped=tuple(name for name in found.settings if name in shaped),
        seeded=seeded,
    )


def _of_whole_sizes(runs: Sequence[Run]) -> list[Run]:
    """The runs, where a run slightly larger than the smallest run of its shape gets that run's
    size: weights of norms are a setting, and do not make another shape."""
    least: dict[object, Run] = {}
    for run in sorted(runs, key=lambda run: run.params_total):
        least.setdefault(run.shape, run)
    return [_as_large_as(least[run.shape], run) if run.settings else run for run in runs]


def _as_large_as(least: Run, run: Run) -> Run:
    total, inner = least.params_total, least.params_non_embedding
    near = run.params_total <= (1 + HAIR) * total and run.params_non_embedding <= (1 + HAIR) * inner
    return replace(run, params_total=total, params_non_embedding=inner) if near else run


def _told_apart(
    runs: list[Run], label: str, notes: list[str], *, by_seed: bool, by_name: bool
) -> list[Run]:
    """The runs. Those that differ only in the loss become seeds if no column names seeds or runs;
    `notes` gets a sentence on how repeats are treated."""
    repeats = _repeats(runs)
    if repeats and not by_seed and not by_name:
        check_repeats(runs, label)
        notes.append("rows that differ only in the loss are counted as other seeds")
        return _with_seeds(runs)
    if repeats and not by_seed:
        notes.append(
            f"no column has seeds, so {repeats} runs that repeat a shape at the same settings "
            "count as their mean, and what they differ by is not called noise; if a column "
            "tells seeds apart, --map COLUMN=seed"
        )
    elif repeats:
        notes.append(
            f"{repeats} runs repeat a shape at the same settings and the same seed, and count as "
            "their mean; if a setting differs between them, export its column too"
        )
    return runs


def _without_blank_seeds(cells: Cells) -> Cells:
    """The cells without a column of seeds in which no row has one."""
    if not (cells.values.get("seed", np.zeros(1)) < 0).all():
        return cells
    left = {name: column for name, column in cells.values.items() if name != "seed"}
    return replace(cells, values=left)


def _time(values: Mapping[str, Array]) -> str:
    """The column that says how far a run has trained; empty where only final losses are known.

    It is tokens or, if tokens have one value in each run, steps.
    """
    keys = [values[name] for name in (*IDENTITY, "run") if name in values]
    there = [name for name in ("tokens", "step") if name in values and (values[name] > 0).any()]
    return max(there, key=lambda name: len(_codes([*keys, values[name]])[1]), default="")


def _has_size(values: Mapping[str, Array]) -> NDArray[np.bool_]:
    known = np.zeros(len(values["depth"]), dtype=bool)
    for name in SIZES:
        if name in values:
            known |= np.isfinite(values[name])
    return known


def _groups(cells: Cells, time: str, settings: Sequence[str], notes: list[str]) -> _Groups:
    """The rows grouped into runs; adds to `notes` if names of runs are not used.

    A setting or learning rate separates runs if a run would otherwise have the same tokens twice;
    any other column that changes along a run is a schedule or a result. If rows that are otherwise
    alike form no curves, tokens and every setting separate them.
    """
    values = cells.values
    keys = [values[name] for name in IDENTITY if name in values]
    run = values.get("run")
    if run is not None:
        groups = len(_codes(keys)[1])
        if time and len(set(run.tolist())) == len(run) >= MANY_ROWS * groups:
            notes.append("the column of run names has a new one in every row, so it is not used")
        else:
            keys = [*keys, run]
    at = [values[time]] if time else []
    sizes = next((values[name] for name in SIZES if name in values), np.zeros(len(keys[0])))
    for name in (coin.lower() for coin in SPENT if coin.lower() in values):
        if (levels := held_levels(values[name], sizes)) is not None:
            keys = [*keys, levels.astype(np.float64)]
    columns = {name: cells.texts[name].codes.astype(np.float64) for name in settings}
    if "learning_rate" in values:
        columns = {"": values["learning_rate"], **columns}
    finals = run is None and bool(time) and _no_curves(values[time], values["loss"], keys)
    keys = [*keys, values[time]] if finals else keys
    for column in columns.values():
        if finals or len(_codes([*keys, column, *at])[1]) > len(_codes([*keys, *at])[1]):
            keys = [*keys, column]
    codes, times = _codes(keys)
    constant = {
        name: cells.texts[name]
        for name in settings
        if len(_codes([codes.astype(np.float64), columns[name]])[1]) == len(times)
    }
    order = np.argsort(codes, kind="stable")
    return _Groups(
        rows=np.split(order, np.flatnonzero(np.diff(codes[order])) + 1),
        settings=constant,
        finals=finals,
    )


def _no_curves(time: Array, losses: Array, keys: list[Array]) -> bool:
    """True if rows are final losses, each at tokens of its own: losses of rows with equal keys rise
    with time about as often as they fall, or few rows share their keys."""
    codes, times = _codes(keys)
    if 0 < (times > 1).mean() <= FEW_SHARED:
        return True
    order = np.lexsort((time, codes))
    ends = np.cumsum(times)
    rises = (losses[order][ends - 1] > losses[order][ends - times])[times > 1]
    low, high = NO_CURVES
    return len(rises) >= FEWEST_CURVES and low <= rises.mean() <= high


def held_levels(amounts: Array, sizes: Array) -> NDArray[np.int64] | None:
    """The index of each amount among a few equal amounts that runs of several sizes spent, as when
    compute or time is held equal; None if they did not.

    An index covers amounts within 2 %, and at least three sizes that span a factor of `APART`.
    """
    if not (np.isfinite(amounts) & (amounts > 0)).all():
        return None
    logs = np.log(amounts)
    order = np.argsort(logs)
    levels = np.empty(len(logs), dtype=np.int64)
    levels[order] = np.cumsum(np.diff(logs[order], prepend=logs[order[0]]) > SAME_AMOUNT)
    for level in range(int(levels.max()) + 1):
        own = np.unique(sizes[levels == level])
        if len(own) < FEWEST_SIZES or own[-1] <= APART * own[0]:
            return None
        if np.ptp(logs[levels == level]) > SAME_AMOUNT:
            return None
    return levels


def _codes(keys: list[Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A whole number for each row, equal where all keys are equal, and the count of each number."""
    codes = numbered(keys)
    return codes, np.bincount(codes)


def _runs_of(values: Mapping[str, Array], rows: NDArray[np.int64], time: str) -> Iterator[Run]:
    """Yields the run of rows that agree in all keys, or a run for each seed if tokens repeat."""
    losses = values["loss"][rows]
    if not time:
        for loss in dict.fromkeys(losses.tolist()):
            yield _run(values, rows, np.array([NO_TIME]), np.array([loss]))
        return
    tokens = values[time][rows]
    known = np.isfinite(tokens) & (tokens > 0)
    rows, tokens, losses = rows[known], tokens[known], losses[known]
    if len(rows):
        for of_seed in _seeds(tokens, losses):
            yield _run(values, rows, tokens[of_seed], losses[of_seed])


def _seeds(tokens: Array, losses: Array) -> Iterator[NDArray[np.int64]]:
    """Yields the rows of each seed in order of tokens, one row for each number of tokens.

    If a few numbers of tokens occur twice, the run was restarted, and the later row counts. If
    nearly all occur equally often, the rows are of that many seeds, one after another.
    """
    if len(np.unique(tokens)) == len(tokens):
        yield np.argsort(tokens)
        return
    times = Counter(tokens.tolist())
    often, count = Counter(times.values()).most_common(1)[0]
    seeds = often if count >= MOSTLY * len(times) else 1
    turn: Counter[float] = Counter()
    seed_rows: list[dict[float, int]] = [{} for _ in range(seeds)]
    for row, at in enumerate(tokens.tolist()):
        seed_rows[min(turn[at], seeds - 1)][at] = row
        turn[at] += 1
    seen: set[bytes] = set()
    for found in seed_rows:
        rows = np.array([row for _, row in sorted(found.items())], dtype=np.int64)
        copy = losses[rows].tobytes()
        if copy not in seen:  # else rows that were copied, to the last digit
            yield rows
        seen.add(copy)


def _run(values: Mapping[str, Array], rows: NDArray[np.int64], tokens: Array, losses: Array) -> Run:
    names = (*IDENTITY, "seconds_per_step")
    first = {name: float(values[name][rows[0]]) for name in names if name in values}
    rates = values["learning_rate"][rows] if "learning_rate" in values else np.empty(0)
    rates = rates[np.isfinite(rates) & (rates > 0)]
    finite = np.isfinite(losses)
    ends = {coin: values[coin.lower()][rows] for coin in SPENT if coin.lower() in values}
    total, inner = _sizes(first)
    depth = int(first["depth"])
    d_ff = first.get("d_ff", np.nan)
    return Run(
        d_model=int(first["d_model"]) if np.isfinite(first.get("d_model", np.nan))
        else max(1, round((inner / (12 * depth)) ** 0.5)),
        depth=depth,
        d_ff=int(d_ff) if np.isfinite(d_ff) else None,
        seed=int(first.get("seed", 0)),
        params_total=total,
        params_non_embedding=inner,
        seconds_per_step=float(np.nan_to_num(first.get("seconds_per_step", 0.0))),
        tokens=tokens[finite],
        losses=losses[finite],
        learning_rate=float(rates.max()) if len(rates) else None,
        diverged=not finite[-1],
        spent={coin: float(np.nanmax(end)) for coin, end in ends.items() if (end > 0).any()},
    )  # fmt: skip


def _sizes(first: Mapping[str, float]) -> tuple[int, int]:
    """Parameters in total and without the embedding; where one is missing, the other is used for
    it.

    Where neither is known, both are 12 depth d_model**2 or, with a d_ff, the size of the matrices.
    """
    known = [first.get(name, np.nan) for name in ("params_total", "params_non_embedding")]
    finite = [size for size in known if np.isfinite(size)]
    if not finite:
        d_model, d_ff = first["d_model"], first.get("d_ff", np.nan)
        d_ff = d_ff if np.isfinite(d_ff) else 4 * d_model
        finite = [first["depth"] * (4 * d_model**2 + 2 * d_model * d_ff)]
    total, inner = (int(size if np.isfinite(size) else finite[0]) for size in known)
    return total, inner


def _key(run: Run, *, timed: bool = True) -> tuple[object, ...]:
    """Key that is equal for runs that differ only in the loss or, unless `timed`, in the loss and
    the tokens."""
    sizes = (run.params_total, run.params_non_embedding)
    settings = tuple(run.settings.values())
    return (
        *run.shape,
        *sizes,
        run.learning_rate,
        run.seed,
        settings,
        timed * float(run.tokens[-1:].sum()),
    )


def _repeats(runs: Sequence[Run], *, timed: bool = True) -> int:
    """The number of runs that differ from an earlier run only in the loss, or unless `timed` in the
    tokens."""
    return len(runs) - len({_key(run, timed=timed) for run in runs})


def _with_seeds(runs: Sequence[Run]) -> list[Run]:
    """The runs with numbered seeds, different for runs that differ only in the loss."""
    turn: Counter[object] = Counter()
    numbered = []
    for run in runs:
        key = _key(run)
        numbered.append(replace(run, seed=turn[key]))
        turn[key] += 1
    return numbered
