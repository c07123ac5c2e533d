"""Checks of a column of losses for values that can't be losses: placeholders, percentages,
scores."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import pstdev

import numpy as np

from fathom.models.unit import NATS, TOKENS_PER_BYTE, UNITS, Unit, unit_in
from fathom.search.analysis.answer.verdict import PLATEAU_WIDTH
from fathom.search.analysis.losses.noise import USUAL_NOISE
from fathom.search.formatting import printable, ranges
from fathom.search.tables.columns.cells import Cells
from fathom.search.tables.columns.columns import as_argument, is_perplexity, plain_name
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.choosing import EndedRun, measured_noise
from fathom.search.tables.runs import Run, Runs
from fathom.search.words import plateau_width

A_GUESS = 12.5
"""Loss, nats, of a uniform guess among 270,000 tokens, which is more than any vocabulary has."""
MAXIMISED = re.compile(
    r"(^|_)(acc|accurac(y|ies)|top_?[15]|f1|(sacre)?bleu|rouge|chrf|meteor|au(c|roc|prc)|roc|map|mrr"
    r"|ndcg|r2|recall|precision|mcc|iou|dice|corr(elation)?|pearson|spearman|rewards?|return|scores?"
    r"|em|exact_match|success|win|winrate|mmlu|hellaswag)($|_)"
)
"""Names of columns in which higher is better."""
MINIMISED = re.compile(r"(^|_)(loss|losses|err|error|nll|ce|entropy)($|_)")
"""Names of columns in which lower is better, whatever else they contain."""
MANY = 0.25
"""Share of runs above `A_GUESS` beyond which the unit must be wrong, as not so many diverge."""
RISING = 0.9
"""Share of rising curves from which on higher values must be better."""
FEWEST_CURVES = 3
"""Fewest curves for the test by `RISING`."""
APART = 1.5
"""Factor above all other losses from which on a whole number that several runs share is a
placeholder."""
REMEDY = "name the column of a held-out cross entropy with --map COLUMN=loss"
SPREAD = 10
"""Usual standard deviation of losses in a table, in multiples of the noise between seeds; assumed
for a quantity to maximise if no repeats measure its noise."""
LEVEL = 3.0
"""Loss, nats, to which the best value of a quantity to maximise is converted: a usual loss."""


def check_loss_name(name: str, label: str, *, maximised: bool) -> None:
    """Raises `TableError` if the column's name says that higher is better or, if `maximised`, that
    lower is better."""
    plain = plain_name(name)
    falls = MINIMISED.search(plain) or unit_in(plain)
    if maximised and falls:
        raise TableError(
            f"`--maximise` needs a column in which more is better, got {printable(name)}; drop "
            "`--maximise`, or name another column with --map COLUMN=loss"
        )
    if MAXIMISED.search(plain) and not maximised and not falls:
        raise TableError(
            f"{label} must have a loss, which is minimised, got {printable(name)}, whose name "
            f"says that more is better; add --maximise, or {REMEDY}"
        )


def unit_of(name: str, asked: str, tokens: float | None) -> Unit:
    """The unit of a column of losses, as `asked` or by the column's name. `tokens` is the number of
    tokens per byte or character; by default `TOKENS_PER_BYTE`, or one per character."""
    unit = asked or unit_in(plain_name(name)) or "nats"
    return UNITS[unit].per_token(tokens or (TOKENS_PER_BYTE if unit.endswith("byte") else 1.0))


def in_nats(runs: Runs, unit: Unit) -> Runs:
    """The runs with losses in nats."""
    if unit == NATS:
        return runs
    zero, sign = (0.0, 1) if unit.zero is None else (unit.zero, -1)
    kept = (replace(run, losses=sign * unit.nats * (run.losses - zero)) for run in runs.runs)
    return replace(runs, runs=tuple(kept))


def unit_to_maximise(runs: Sequence[Run], name: str, noise: float | None) -> Unit:
    """The unit of a quantity to maximise, scaled so that its noise between seeds equals the usual
    noise of losses, in nats.

    Its noise is `noise` if stated; otherwise measured by repeats or, without repeats, assumed from
    the spread of the runs.
    """
    ended = [EndedRun(run, float(run.losses[-1])) for run in runs if len(run.losses)]
    values = [end.loss for end in ended if end.loss is not None]
    scale = noise or measured_noise(ended) or pstdev(values) / SPREAD or 1.0
    nats = USUAL_NOISE[0] / scale
    return Unit(printable(name), nats, max(values) + LEVEL / nats)


def logarithms(cells: Cells) -> Cells:
    """The rows with the logarithm of each loss in its place; what has none stays as it is."""
    loss = cells.values["loss"]
    logarithm = np.log(loss, out=loss.copy(), where=loss > 0)
    return replace(cells, values={**cells.values, "loss": logarithm})


def name_notes(name: str, unit: Unit, *, said: bool) -> Iterator[str]:
    """Yields a note on how the column of losses is read; `said` is True if --map names the
    column."""
    shown = printable(name)
    if unit.zero is not None:
        yield f"{shown} is maximised; depths are told apart by {plateau_width(unit)}"
    elif unit.name != NATS.name:
        tokens = UNITS[unit.name.replace(" ", "_")].nats / unit.nats
        yield (
            f"{shown} is in {unit}; depths are told apart by {plateau_width(unit)}, which are "
            f"{PLATEAU_WIDTH} nats a token"
            + f" at {tokens:g} tokens each; --tokens-per-byte says otherwise"
            * ("per" in unit.name)
        )
    elif is_perplexity(name):
        yield f"the losses are the logarithms of {shown}, which are in nats"
    elif plain_name(name) == "value" and not said:
        yield (
            f"{shown} is taken for a loss in nats, of which less is better; --map and --maximise "
            "say otherwise"
        )


def positive_losses(cells: Cells, label: str) -> tuple[Cells, tuple[str, ...]]:
    """The rows whose loss is above 0, as every cross entropy is, and a note on the rows left out.

    Raises:
        TableError: when at least half of the rows have no such loss.
    """
    loss = cells.values["loss"]
    kept = ~(loss <= 0)
    left = int((~kept).sum())
    if not left:
        return cells, ()
    name = "a negative loss" if (loss < 0).any() else "a loss of 0"
    if left >= len(loss) / 2:
        raise TableError(
            f"{label} must have losses above 0, as a cross entropy is, got {left} of {len(loss)} "
            f"rows with {name}, such as {float(loss[~kept][0]):g}; turn the sign, leave the cells "
            "of failed runs empty, or name another column with --map COLUMN=loss"
        )
    depths = sorted({int(depth) for depth in cells.values["depth"][~kept]})
    rows = "1 row has" if left == 1 else f"{left} of {len(loss)} rows have"
    note = f"{rows} {name}, impossible for a cross entropy (depth {ranges(depths)}): left out"
    return cells.at(kept), (note,)


def plausible(runs: Runs, theirs: str, label: str, unit: Unit, *, said: bool) -> Runs:
    """The runs, with those marked as diverged that end above a uniform guess or at a placeholder.

    Raises:
        TableError: when the values seem to be in another unit, or higher seems to be better.
    """
    ended = [run for run in runs.runs if len(run.losses) and not run.diverged]
    ends = [float(run.losses[-1]) for run in ended]
    guess = A_GUESS / unit.nats
    shared = _shared_ends(ends, guess)
    _check_unit([end for end in ends if end not in shared], printable(theirs), label, unit)
    _check_direction(runs.runs, printable(theirs), label)
    if plain_name(theirs) == "value" and not said and max(ends, default=2) <= 1:
        raise TableError(
            f"{label} must say whether {printable(theirs)} is a loss, got only numbers up to 1, "
            "like accuracies and scores; if it is a loss in nats, --map "
            f"{as_argument(theirs)}=loss; if more is better, --maximise"
        )
    failed = [run for run, end in zip(ended, ends, strict=True) if end > guess or end in shared]
    if not failed:
        return runs
    ids = {id(run) for run in failed}
    depths = ranges(sorted({run.depth for run in failed}))
    note = (
        f"{len(failed)} of {len(runs.runs)} runs end above {guess:.3g} {unit}, more than a guess, "
        f"or at one number far above all others (depth {depths}), and count as diverged"
    )
    kept = tuple(_diverged(run) if id(run) in ids else run for run in runs.runs)
    return replace(runs, runs=kept, notes=(*runs.notes, note))


def _check_unit(ends: Sequence[float], name: str, label: str, unit: Unit) -> None:
    """Raises `TableError` if too many runs end above a uniform guess for all of them to have
    diverged."""
    guess = A_GUESS / unit.nats
    high = [end for end in ends if end > guess]
    if len(high) > MANY * len(ends):
        raise TableError(
            f"{label} must have losses in {unit}, got {len(high)} of {len(ends)} runs above "
            f"{guess:.3g} in {name}, such as {max(high):g}, more than a guess; take the "
            "logarithm of perplexities; if more is better, --maximise"
        )


def _check_direction(runs: Sequence[Run], name: str, label: str) -> None:
    """Raises `TableError` if nearly all curves rise."""
    rising = [run.losses[-1] > run.losses[0] for run in runs if len(run.losses) > 2]
    if len(rising) >= FEWEST_CURVES and sum(rising) >= RISING * len(rising):
        raise TableError(
            f"{label} must have losses, which fall with training, got {name}, which rises in "
            f"{sum(rising)} of {len(rising)} runs; if more is better, --maximise"
        )


def _shared_ends(ends: Sequence[float], guess: float) -> frozenset[float]:
    """Placeholders of failed runs: numbers at which several runs end, far above all other
    losses."""
    found: set[float] = set()
    rest = sorted(ends)
    while rest and rest.count(rest[-1]) > 1 and rest[-1] != rest[0]:
        below = max(end for end in rest if end < rest[-1])
        if not (rest[-1].is_integer() or rest[-1] > guess) or rest[-1] < APART * below:
            break
        found.add(rest[-1])
        rest = [end for end in rest if end <= below]
    return frozenset(found)


def _diverged(run: Run) -> Run:
    """The run marked as diverged, without its last loss, which was not measured."""
    return replace(run, tokens=run.tokens[:-1], losses=run.losses[:-1], diverged=True)
