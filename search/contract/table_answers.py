"""Answers of a table of runs, for `--json`."""

from collections.abc import Iterator

from fathom.search.conclusion.findings import Findings
from fathom.search.conclusion.token_laws import laws_json
from fathom.search.contract.answers import answer_of, background_of, size_of
from fathom.search.contract.questions import asked_horizon
from fathom.search.contract.reply import (
    AskedQuestion,
    Background,
    ReadTable,
    Reply,
    StatedAnswer,
    StatedImportance,
    StatedSize,
)
from fathom.search.tables.analysis import Analysis


def table_reply(analysis: Analysis, again: str) -> Reply:
    """The reply for a table; `again` is the command that analyses the table again when runs were
    added."""
    answers, background = list[StatedAnswer](), list[Background]()
    for found in analysis.findings:
        answers += _answers(found, analysis, again)
        held = {**analysis.held, **found.part}
        background.append(background_of(found, analysis.label, held=held))
    return Reply(
        command="analyse",
        answers=tuple(answers),
        sizes=tuple(_sizes(analysis)),
        background=tuple(background),
        token_laws=tuple(laws_json(analysis.token_laws)),
        notes=analysis.notes,
        table=table_of(analysis),
    )


def table_of(analysis: Analysis) -> ReadTable:
    """Rows, columns and notes of a table as it was read."""
    return ReadTable(
        rows=analysis.rows,
        runs=analysis.runs,
        columns=dict(analysis.columns),
        stated_noise=analysis.noise,
        importances=tuple(
            StatedImportance(
                setting=it.setting, nats=it.nats, best=it.best, best_depths=dict(it.best_depths)
            )
            for it in analysis.importances
        ),
    )


def _sizes(analysis: Analysis) -> Iterator[StatedSize]:
    """Yields the best size at each amount that models of different sizes spent equally."""
    for findings, (_, found) in zip(analysis.findings, analysis.sizes, strict=False):
        held = {**analysis.held, **findings.part}
        yield size_of(found, analysis.label, findings.count, held=held)


def _answers(found: Findings, analysis: Analysis, again: str) -> list[StatedAnswer]:
    """The answer of each size of a table."""
    answers = []
    for optimum in found.optima:
        question = AskedQuestion(
            source=analysis.label,
            run=None,
            count=optimum.count.value,
            budget=optimum.budget,
            horizon=asked_horizon(optimum.spend),
            data={"table": analysis.label},
            held={**analysis.held, **found.part},
        )
        command = None if optimum.kind.settled else again
        answers.append(answer_of(optimum, found, question, command=command, noise=analysis.noise))
    return answers
