"""Exit statuses that differ by verdict."""

from collections.abc import Sequence

from fathom.search.contract.reply import StatedAnswer, VerdictKind

STATUS = {
    VerdictKind.IDENTIFIED: 0,
    VerdictKind.PLATEAU: 10,
    VerdictKind.BY_LAW: 11,
    VerdictKind.EDGE: 12,
    VerdictKind.INSUFFICIENT: 13,
    VerdictKind.UNFINISHED: 14,
    VerdictKind.NO_ANSWER: 15,
}
"""Verdict -> exit status with `--exit-verdict`: the higher, the less is known."""


def exit_status(answers: Sequence[StatedAnswer]) -> int:
    """The status of the answer that is known least; that of no answer without any."""
    kinds = [answer.verdict.kind for answer in answers] or [VerdictKind.NO_ANSWER]
    return max(STATUS[kind] for kind in kinds)
