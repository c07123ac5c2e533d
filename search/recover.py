"""What an earlier run on a folder left: the trials that ended, those under way, and the journal.

A trial may have several lives: one that was stopped and taken up again has begun, and ends, once
more. It is under way when it has begun more often than it has ended.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from search.confirm import Choice
from search.folder import RunFolder
from search.records import (
    TrialRecord,
    from_json,
    read_lines,
    read_records,
    repair,
    shape_from_json,
)

BEGINNINGS = ("started", "revived")
"""Events of the journal with which a life of a trial begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """All that a new run on the folder goes on from."""

    ended: tuple[TrialRecord, ...]
    """In the order in which they ended."""
    under_way: tuple[TrialRecord, ...]
    """As last reported."""
    waves: dict[int, tuple[Choice, ...]]
    """The last wave of confirming trials by budget; empty when the budget was settled by it."""
    first_rungs: dict[int, int]
    """Tokens of the first rung that still stops trials, for the budgets that were extended."""


def read_past(folder: RunFolder) -> Past:
    """Read both files, after cutting off what a crash left half written."""
    repair(folder.records)
    repair(folder.journal)
    journal = list(read_lines(folder.journal))
    latest = {line["trial"]: line for line in journal if "trial" in line}
    lives = Counter(line["trial"] for line in journal if line["event"] in BEGINNINGS)
    lives.subtract(line["trial"] for line in read_lines(folder.records))
    under_way = [trial for trial, lives_left in lives.items() if lives_left > 0]
    return Past(
        ended=tuple(r for r in read_records(folder.records) if r.spec.trial not in under_way),
        under_way=tuple(from_json(latest[trial]) for trial in under_way),
        waves=_waves(journal),
        first_rungs=read_first_rungs(journal),
    )


def read_first_rungs(journal: Iterable[dict[str, Any]]) -> dict[int, int]:
    """Where each extended budget's first rung was moved to, tokens."""
    return {line["budget"]: line["first_rung"] for line in journal if line["event"] == "extend"}


def _waves(journal: Iterable[dict[str, Any]]) -> dict[int, tuple[Choice, ...]]:
    waves: dict[int, tuple[Choice, ...]] = {}
    for line in journal:
        if line["event"] == "wave":
            waves[line["budget"]] = tuple(map(_choice, line["choices"]))
        elif line["event"] == "extend" and not waves.get(line["budget"]):
            waves.pop(line["budget"], None)  # more trials will finish, so look at them all again
    return waves


def _choice(line: dict[str, Any]) -> Choice:
    return Choice(shape_from_json(line["shape"]), line["seed"], line["rate_scale"])
