"""The answer of a run folder for `fathom analyse`."""

from collections.abc import Sequence
from pathlib import Path

from fathom.search.conclusion.conclude import conclude_run
from fathom.search.formatting import printable
from fathom.search.scheduling.journal import read_run
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.preflight import load_run
from fathom.search.tables.analysis import Analysis, TableQuestion


def answer_run(path: Path, maps: Sequence[str], question: TableQuestion) -> Analysis:
    """The answers of a run folder, as `fathom report` has them."""
    of_tables = (
        *(maps, question.count, question.budgets, question.horizons),
        *(question.best_of, question.where, question.by),
    )
    if any(of_tables):
        raise ConfigError(
            "`--map`, `--count`, `--params`, `--horizon`, `--horizons`, `--best-of`, `--where` and "
            f"`--by` are for tables, and {path} is a run folder, whose study says them; drop them, "
            f"or analyse {path / 'tables/trials.csv'}"
        )
    folder, config = load_run(path)
    found = conclude_run(folder, config, read_run(folder, config), question.noise)
    return Analysis(
        label=printable(str(path)),
        rows=len(found.records),
        columns={},
        runs=len(found.records),
        shapes=len({record.spec.shape for record in found.records}),
        notes=(),
        noise=question.noise,
        findings=(found,),
    )
