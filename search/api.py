"""A study in Python: `from fathom import Study, load, run`. The only home of pandas."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from fathom.models.shape import Shape
from fathom.search.analysis.law import Prediction
from fathom.search.commands.predict import law_of
from fathom.search.conclusion import Conclusion, conclude
from fathom.search.formatting import format_count
from fathom.search.pipeline import run_study
from fathom.search.records import TrialRecord
from fathom.search.report.charts.paper_figures import ShownFigure, static
from fathom.search.report.csv_tables import tables
from fathom.search.report.writer import make_charts
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.study.config import StudyConfig, study_of
from fathom.search.study.config import load as read_study
from fathom.search.study.errors import ConfigError
from fathom.search.study.preflight import check_ready, open_run
from fathom.search.study.types import parse_count
from fathom.search.tracking.pages import headline


class Study:
    """What a study asked and what it has found, as its run folder stood when this was made.

    Frames have the columns of the run's `tables/*.csv`: losses in nats, sizes in parameters, times
    in seconds.
    """

    def __init__(self, folder: RunFolder, config: StudyConfig, records: list[TrialRecord]) -> None:
        self.folder, self.config, self.records = folder, config, records

    @cached_property
    def conclusion(self) -> Conclusion:
        """Every statistic as values: optima, laws, audits by budget, and further findings."""
        return conclude(self.records, self.config)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """A frame for each kind of row that there is: `trials`, `optima`, `depths`, `laws`, ..."""
        return {name: pd.DataFrame(rows) for name, rows in tables(self.conclusion).items()}

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each trial that has ended."""
        return self._frame("trials")

    @property
    def curves(self) -> pd.DataFrame:
        """A row for each evaluation of each trial."""
        return self._frame("curves")

    @property
    def optima(self) -> pd.DataFrame:
        """A row for each budget: the best depth, its interval and its verdict."""
        return self._frame("optima")

    @cached_property
    def figures(self) -> dict[str, ShownFigure]:
        """The report's figures by name, to show, change or save."""
        return {chart.key: static(chart) for chart in make_charts(self.conclusion)}

    def shape(self, budget: str | int) -> Shape:
        """The best shape of a budget, such as `"1M"`.

        Raises:
            ConfigError: when the study has none there.
        """
        shapes = {own.budget: own.shape for own in self.conclusion.optima if own.shape}
        try:
            return shapes[parse_count(budget)]
        except (ValueError, KeyError) as error:
            known = ", ".join(map(format_count, shapes)) or "none"
            raise ConfigError(f"no best shape for budget {budget}; there are {known}") from error

    def predict(self, params: str | float) -> Prediction:
        """What the study's law says of a size, such as `"1B"`.

        Raises:
            ValueError: when there is no law, or it has no depth of at least 1 there.
        """
        return law_of(self.folder.path, self.conclusion.optima).predict(parse_count(params))

    def __repr__(self) -> str:
        answers = "\n".join(f"  {headline(optimum)}" for optimum in self.conclusion.optima)
        return (
            f"Study {self.config.study} in {self.folder.path}\n{answers or '  no trial has ended'}"
        )

    def _frame(self, name: str) -> pd.DataFrame:
        return self.tables.get(name, pd.DataFrame())


def load(run_folder: str | Path) -> Study:
    """The study of a run folder, `runs/NAME`; it may still be running.

    Raises:
        ConfigError: when it is no run folder.
    """
    folder, config = open_run(Path(run_folder))
    return Study(folder, config, read_records(folder.records))


def run(study: str | Path | Mapping[str, Any] | StudyConfig, *, runs: str | Path = "runs") -> Study:
    """Search a study as `fathom run` does, from its file or its keys; again, it resumes.

    A script calls this under `if __name__ == "__main__":`, since figures are drawn by processes.

    Raises:
        ValueError: before any trial starts, when the study can't be run.
    """
    config = _config(study)
    ready = check_ready(config, Path(runs))
    run_study(ready, Console())
    return load(ready.folder.path)


def _config(study: str | Path | Mapping[str, Any] | StudyConfig) -> StudyConfig:
    if isinstance(study, StudyConfig):
        return study
    return study_of(study) if isinstance(study, Mapping) else read_study(Path(study))
