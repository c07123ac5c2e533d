"""Answers of runs that no table holds."""

from fathom.models.shape import Count
from fathom.search.tables.answers import AskedRuns, answers_of
from fathom.search.tables.question import TableFindings, TableQuestion
from fathom.search.tables.runs import Runs


def find_answers(
    runs: Runs, question: TableQuestion, count: Count, label: str
) -> tuple[TableFindings, ...]:
    """Answers of runs at each horizon of a question, or at the horizon that they share.

    Raises:
        TableError: when they have nothing of what is asked.
    """
    asked = AskedRuns(runs=runs, question=question, count=count, label=label, columns={}, part={})
    return answers_of(asked)[0]
