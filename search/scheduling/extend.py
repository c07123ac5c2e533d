"""`fathom run --extend`: in budgets whose audit failed, moves the first rung to more tokens.

The study file does not change: the audit of the records so far decides whether to extend, and an
extension is a line in the journal. Reading this line, the scheduler resumes the stopped trials.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fathom.models.shape import Count
from fathom.search.formatting import budget_text
from fathom.search.json_lines import append_line
from fathom.search.records import Outcome, TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.audit import RungAudit, later_first_rung, rung_place
from fathom.search.scheduling.journal import LaterFirstRung, Past, decided_line
from fathom.search.study.planning.budget import Budget

Audits = Mapping[int, Sequence[RungAudit]]
"""The audits of each budget's rungs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The later first rung of one budget, and the number of trials that it resumes."""

    budget: Budget
    first_rung: int
    """Tokens of the first rung; the horizon if no trial is stopped any more."""
    again: int
    """Number of stopped trials that are resumed."""
    anew: int
    """Number of resumed trials that have no checkpoint and so start at step 0."""

    @property
    def _place(self) -> str:
        """Place of the first rung, as text."""
        return rung_place(self.first_rung, self.budget.tokens, self.budget.spend.coin)

    @property
    def sentence(self) -> str:
        """The extension in one line."""
        moves = (
            f"nothing is stopped before {self._place} any more"
            if self.first_rung < self.budget.tokens
            else "nothing is stopped any more"
        )
        goes_on = f"{self.budget.label}: {moves}; stopped trials resumed: {self.again}"
        lost = f", {self.anew} from the start, as their checkpoints are gone" if self.anew else ""
        return f"{goes_on}{lost}"


def extend(
    folder: RunFolder, past: Past, audits: Audits, budgets: Iterable[Budget]
) -> tuple[Extension, ...]:
    """Moves the first rung of each budget whose audit failed, in the journal and in `past`; returns
    the extensions."""
    extensions = []
    for budget in budgets:
        wanted = later_first_rung(audits.get(budget.params, ()))
        if wanted is not None and wanted > past.first_rungs.get(budget.params, 0):
            extensions.append(_extension(folder, past.latest, budget, wanted))
            line = decided_line(budget.params, LaterFirstRung(wanted))
            append_line(folder.journal, line)
            past.take(line)
    return tuple(extensions)


def forget_checkpoints(folder: RunFolder, records: Sequence[TrialRecord], audits: Audits) -> None:
    """Deletes the checkpoints of stopped trials, for budgets in which no rung has failed."""
    for record in records:
        failed = any(audit.failed for audit in audits[record.spec.budget])
        if record.outcome is Outcome.STOPPED and not failed:
            folder.forget_checkpoint(record.spec.trial)


def warnings(audits: Audits, count: Count, command: str) -> tuple[str, ...]:
    """Returns a line for each budget whose audit failed, and a last line with the remedy."""
    failed = {params: [rung for rung in rungs if rung.failed] for params, rungs in audits.items()}
    doubts = [f"{budget_text(size, count)}: {_doubt(r)}" for size, r in failed.items() if r]
    remedy = f"`{command} --extend` moves the first rung later and loses nothing that was trained"
    return (*doubts, remedy) if doubts else ()


def waits(audits: Audits, count: Count) -> tuple[str, ...]:
    """Returns a line for each rung at which stopping waited."""
    return tuple(
        f"{budget_text(size, count)}: at {rung.place} {rung.wait}"
        for size, rungs in audits.items()
        for rung in rungs
        if rung.wait
    )


def _doubt(failed: Sequence[RungAudit]) -> str:
    first, *others = failed
    nor = f" (nor at {', '.join(rung.place for rung in others)})" if others else ""
    return (
        f"stopping at {first.place} can't be trusted{nor}: {first.why}; "
        f"a new study should set {first.remedy}"
    )


def _extension(
    folder: RunFolder, records: Sequence[TrialRecord], budget: Budget, first_rung: int
) -> Extension:
    again = [
        record.spec.trial
        for record in records
        if record.spec.budget == budget.params
        and record.outcome is Outcome.STOPPED
        and max(record.rungs) < first_rung
    ]
    anew = sum(not folder.has_checkpoint(trial) for trial in again)
    return Extension(budget=budget, first_rung=first_rung, again=len(again), anew=anew)
