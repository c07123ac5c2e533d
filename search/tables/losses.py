"""Values that a table calls losses and that can be none: placeholders, percentages, scores."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fathom.search.formatting import printable, ranges
from fathom.search.tables.cells import Cells
from fathom.search.tables.columns import NO_LOSS, as_argument, plain_name
from fathom.search.tables.runs import Run, Runs, TableError

A_GUESS = 12.5
"""Nats that a guess among 270,000 tokens loses, more than any vocabulary has."""
MAXIMISED = re.compile(
    r"(^|_)(acc|accurac(y|ies)|top_?[15]|f1|(sacre)?bleu|rouge|chrf|meteor|au(c|roc|prc)|roc|map|mrr"
    r"|ndcg|r2|recall|precision|mcc|iou|dice|corr(elation)?|pearson|spearman|rewards?|return|scores?"
    r"|em|exact_match|success|win|winrate|mmlu|hellaswag)($|_)"
)
"""Names of columns of which more is better."""
MINIMISED = re.compile(r"(^|_)(loss|losses|err|error|nll|ce|entropy)($|_)")
"""Names that say otherwise."""
MANY = 0.25
"""Share of the runs above `A_GUESS` from which on it is not that they diverged, but the unit."""
RISING = 0.9
"""Share of the curves that rise from which on the value is one to maximise."""
FEWEST_CURVES = 3
"""Fewest curves that can show it."""
APART = 1.5
"""Factor above every other loss from which on a whole number that runs share is no loss."""
REMEDY = "name the column of a held-out cross entropy in nats with --map COLUMN=loss"


def check_loss_name(name: str, label: str) -> None:
    """Raises `TableError` for a column of which more is better."""
    plain = plain_name(name)
    if MAXIMISED.search(plain) and not MINIMISED.search(plain):
        raise TableError(
            f"{label} must have a loss, which is minimised, got {printable(name)}, of which more "
            f"is better by its name; {REMEDY}, or rename the column if less is better"
        )


def name_notes(name: str, said: bool) -> Iterator[str]:
    """Yields what the name of the column of losses leaves open; `said` if --map names it."""
    shown = printable(name)
    if NO_LOSS.search(plain_name(name)):
        yield f"{shown} is read as nats: bits times ln 2 are nats, and so is ln(perplexity)"
    elif plain_name(name) == "value" and not said:
        yield f"{shown} is taken for a loss in nats, of which less is better; --map says otherwise"


def positive_losses(cells: Cells, label: str) -> tuple[Cells, tuple[str, ...]]:
    """The rows whose loss is above 0, as each cross entropy is, and a note on those left out.

    Raises:
        TableError: when most rows have none.
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
    note = f"{rows} {name}, which no cross entropy is (depth {ranges(depths)}): left out"
    return cells.at(kept), (note,)


def plausible(runs: Runs, theirs: str, label: str, *, said: bool) -> Runs:
    """The runs, of which those that end above any guess, or at a placeholder, have diverged.

    Raises:
        TableError: when so many do that the values are in another unit, or of another direction.
    """
    ended = [run for run in runs.runs if len(run.losses) and not run.diverged]
    ends = [float(run.losses[-1]) for run in ended]
    shared = _shared_ends(ends)
    _check_unit([end for end in ends if end not in shared], printable(theirs), label)
    _check_direction(runs.runs, printable(theirs), label)
    if plain_name(theirs) == "value" and not said and max(ends, default=2) <= 1:
        raise TableError(
            f"{label} must say what {printable(theirs)} is, got no number above 1: accuracies and "
            f"scores are such, too; if it is a loss in nats, --map {as_argument(theirs)}=loss"
        )
    failed = [run for run, end in zip(ended, ends, strict=True) if end > A_GUESS or end in shared]
    if not failed:
        return runs
    ids = {id(run) for run in failed}
    note = (
        f"{len(failed)} of {len(runs.runs)} runs end above {A_GUESS} nats, more than a guess, or "
        f"at one number far above all others (depth {ranges(sorted({r.depth for r in failed}))}), "
        "and count as diverged"
    )
    kept = tuple(_diverged(run) if id(run) in ids else run for run in runs.runs)
    return replace(runs, runs=kept, notes=(*runs.notes, note))


def _check_unit(ends: Sequence[float], name: str, label: str) -> None:
    """Raises `TableError` if so many runs end above a guess that it is not for having diverged."""
    high = [end for end in ends if end > A_GUESS]
    if len(high) > MANY * len(ends):
        raise TableError(
            f"{label} must have losses in nats, got {len(high)} of {len(ends)} runs above "
            f"{A_GUESS} in {name}, such as {max(high):g}, more than a guess; take the "
            "logarithm of perplexities; if more is better, name the column of a held-out cross "
            "entropy with --map COLUMN=loss"
        )


def _check_direction(runs: Sequence[Run], name: str, label: str) -> None:
    """Raises `TableError` if nearly all curves rise."""
    rising = [run.losses[-1] > run.losses[0] for run in runs if len(run.losses) > 2]
    if len(rising) >= FEWEST_CURVES and sum(rising) >= RISING * len(rising):
        raise TableError(
            f"{label} must have losses, which fall with training, got {name}, which rises in "
            f"{sum(rising)} of {len(rising)} runs; {REMEDY}"
        )


def _shared_ends(ends: Sequence[float]) -> frozenset[float]:
    """Whole numbers at which several runs end, far above all others: they stand for failures."""
    found: set[float] = set()
    rest = sorted(ends)
    while rest and rest.count(rest[-1]) > 1 and rest[-1] != rest[0]:
        below = max(end for end in rest if end < rest[-1])
        if not (rest[-1].is_integer() or rest[-1] > A_GUESS) or rest[-1] < APART * below:
            break
        found.add(rest[-1])
        rest = [end for end in rest if end <= below]
    return frozenset(found)


def _diverged(run: Run) -> Run:
    """The run without its last loss, which is none."""
    return replace(run, tokens=run.tokens[:-1], losses=run.losses[:-1], diverged=True)
