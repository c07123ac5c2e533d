"""Exit statuses that differ by verdict."""

from collections.abc import Sequence

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.contract.reply import StatedAnswer

STATUS = {
    Kind.IDENTIFIED: 0,
    Kind.PLATEAU: 10,
    Kind.BY_LAW: 11,
    Kind.EDGE: 12,
    Kind.INSUFFICIENT: 13,
    Kind.UNFINISHED: 14,
    Kind.NO_ANSWER: 15,
}
"""Verdict -> exit status with `--exit-verdict`: the higher, the less is known."""


def exit_status(answers: Sequence[StatedAnswer]) -> int:
    """The status of the least certain answer; `no_answer`'s if there are none."""
    kinds = [answer.verdict.kind for answer in answers] or [Kind.NO_ANSWER]
    return max(STATUS[kind] for kind in kinds)
