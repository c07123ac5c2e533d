"""The answer of a run folder for `fathom analyse`."""

from collections.abc import Sequence
from pathlib import Path

from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.formatting import printable
from fathom.search.scheduling.journal import read_run
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.runs import StudyRun, runs_of
from fathom.search.tables.analysis import Analysis
from fathom.search.tables.question import TableQuestion


def answer_run(path: Path, maps: Sequence[str], question: TableQuestion) -> Analysis:
    """The answers of a run folder, the same as in `fathom report`."""
    of_tables = (
        *(maps, question.count, question.budgets, question.horizons),
        *(question.best_of, question.where, question.by),
    )
    if any(of_tables):
        raise ConfigError(
            "`--map`, `--count`, `--params`, `--horizon`, `--horizons`, `--best-of`, `--where` and "
            f"`--by` are for tables, and {path} is a run folder, whose study sets them; drop them, "
            f"or analyse {path / 'tables/trials.csv'}"
        )
    findings = tuple(_conclude(run, question.noise) for run in runs_of(path) if run.began)
    records = [record for found in findings for record in found.records]
    return Analysis(
        label=printable(str(path)),
        rows=len(records),
        columns={},
        runs=len(records),
        shapes=len({record.spec.shape for record in records}),
        notes=(),
        noise=question.noise,
        findings=findings,
    )


def _conclude(run: StudyRun, noise: float | None) -> Conclusion:
    """The conclusion of one run; `noise` between seeds, nats, is measured if None."""
    return conclude_run(run.folder, run.config, read_run(run.folder, run.config), noise)
