"""Answers of a study, for `--json`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from fathom.models.shape import Count
from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.token_laws import laws_json, token_laws_of
from fathom.search.contract.answers import answer_of, background_of, size_of, verdict_of
from fathom.search.contract.questions import asked_horizon, study_question
from fathom.search.contract.reply import Background, Reply, StatedAnswer
from fathom.search.contract.table_answers import table_of
from fathom.search.formatting import exact_count, shell_command
from fathom.search.run_folder import RunFolder
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.tables.analysis import Analysis
from fathom.search.tracking.writing.publishing import RunResult
from fathom.search.words import remedy_keys, study_reason, study_remedy

FromRecords = Literal["run", "report", "analyse"]
"""Commands that conclude from the records of a study."""


def study_reply(
    command: FromRecords, runs: Sequence[RunResult], noise: float | None = None
) -> Reply:
    """The reply of a command on a run folder; `noise` between seeds, nats, is None if not
    stated."""
    answers, background = list[StatedAnswer](), list[Background]()
    for run in runs:
        found, horizon = run.conclusion, run.horizon
        answers += study_answers(found, run.folder.path, horizon, noise)
        background.append(background_of(found, found.title, horizon=horizon))
    return Reply(
        command=command,
        answers=tuple(answers),
        sizes=tuple(
            size_of(optimum.best_size, run.conclusion.title, Count.TOTAL)
            for run in runs
            for optimum in run.conclusion.optima
            if optimum.best_size
        ),
        background=tuple(background),
        token_laws=tuple(laws_json(token_laws_of([run.conclusion for run in runs]))),
    )


def run_folder_reply(analysis: Analysis) -> Reply:
    """The reply of `analyse` on a run folder."""
    path, runs = Path(analysis.label), list[RunResult]()
    for found in analysis.findings:
        assert isinstance(found, Conclusion), "a run folder has the conclusion of a study"
        several = len(analysis.findings) > 1
        runs.append(RunResult(RunFolder(path / found.title if several else path), found))
    reply = study_reply("analyse", runs, noise=analysis.noise)
    return reply.model_copy(update={"table": table_of(analysis), "notes": analysis.notes})


def study_answers(
    conclusion: Conclusion,
    run: Path,
    horizon: str | None = None,
    noise: float | None = None,
) -> tuple[StatedAnswer, ...]:
    """The answer of each budget of a study; a budget without trials is unfinished."""
    config, found = conclusion.config, dict[int, StatedAnswer]()
    for optimum in conclusion.optima:
        asked = asked_horizon(optimum.spend, horizon)
        question = study_question(optimum.budget, config, run, asked)
        command = next_command(optimum, conclusion, run)
        found[optimum.budget] = answer_of(
            optimum, conclusion, question, command=command, noise=noise
        )
    rest = tuple(budget for budget in config.budgets if budget not in found)
    for answer in not_begun(config, run, rest, conclusion.resume, horizon):
        assert answer.question.budget is not None
        found[int(answer.question.budget)] = answer
    return tuple(found[budget] for budget in sorted(found))


def not_begun(
    config: StudyConfig, run: Path, budgets: Sequence[int], command: str, horizon: str | None
) -> Iterator[StatedAnswer]:
    """Yields the answers of budgets that have no trial."""
    unfinished = v.Verdict(v.Kind.UNFINISHED, v.SearchUnfinished(0), v.Advice.RESUME)
    verdict = verdict_of(unfinished, study_reason(unfinished), study_remedy(unfinished))
    for budget in expand_budgets(config):
        if budget.params in budgets:
            asked = asked_horizon(budget.spend, horizon)
            yield StatedAnswer(
                question=study_question(budget.params, config, run, asked),
                verdict=verdict, command=command or None,
            )  # fmt: skip


def next_command(optimum: Optimum, conclusion: Conclusion, run: Path) -> str | None:
    """The command that trains the answer, resumes the search, or searches with the remedy."""
    if optimum.kind is v.Kind.UNFINISHED:
        return conclusion.resume or None
    if optimum.kind.settled and optimum.shape:
        return shell_command("fathom", "train", run, "--params", exact_count(optimum.budget))
    settings = remedy_keys(optimum.verdict.remedy)
    if not settings:
        return None
    study = {"study": f"{conclusion.config.study}-2", **settings}
    sets = [part for key, value in study.items() for part in ("--set", f"{key}={value}")]
    return shell_command("fathom", "run", RunFolder(run).config, *sets, "--runs", run.parent)
