"""A study in Python: `from fathom import Study, load, run`. The only home of pandas."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fathom.models.shape import Count, Shape
from fathom.objectives.keys import parse_count
from fathom.search.analysing.source import answer_source, question_of
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import Law, Prediction
from fathom.search.commands.export_folder import export_folder
from fathom.search.commands.train_best import train_best
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.conclusion.findings import laws_of
from fathom.search.contract.plans import budget_plans
from fathom.search.export.best import BestShape, best_yaml, shape_to_train
from fathom.search.formatting import format_count
from fathom.search.pipeline import run_study
from fathom.search.report.charts.paper_figures import ShownFigure, static
from fathom.search.report.pages.data import tables
from fathom.search.report.pages.writer import make_charts
from fathom.search.report.terminal.steps import Steps
from fathom.search.report.terminal.tables import terminal
from fathom.search.report.words.text import answer
from fathom.search.run_folder import RunFolder, locked, token_cache, write_atomically
from fathom.search.scheduling.journal import Past, read_run
from fathom.search.scheduling.sampling.depth_sampler import DepthSampler
from fathom.search.scheduling.sampling.shape_space import ShapeSpace
from fathom.search.scheduling.sampling.study_sampler import check_sampler
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import changed, study_of
from fathom.search.study.file.study_file import load as read_study
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import TrackingConfig
from fathom.search.study.planning.horizons import horizon_name
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from fathom.search.study.preflight import check_ready, check_trusted, check_trusted_study
from fathom.search.study.runs import one_run
from fathom.search.tables.analysis import Analysis, analyse_table
from fathom.search.tables.columns.columns import parse_maps
from fathom.search.tables.open_table import rows_of

__all__ = ["DepthSampler", "ShapeSpace", "Study", "analyse", "load", "run", "run_horizons"]

RAY_OWN = re.compile(
    r"(timesteps|episodes|time)_(total|this_iter)(_s)?|timestamp|date|hostname|node_ip|pid|done|"
    r"should_checkpoint|experiment_tag|checkpoint_dir_name|trial_id|\w+_since_restore|config/.*"
)
"""Pattern of results that Ray adds to those of a training function, apart from its
`training_iteration`."""


class Tables(dict[str, pd.DataFrame]):
    """Data frames by name; the error of an unknown name lists the names."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"a table must be one of {', '.join(self)}, got {name}")


class Study:
    """A study and its records, as they were when this object was made.

    Data frames have the columns of the CSV files in the run's `tables/` folder, with times as
    timestamps in UTC and lists as lists. Losses are in nats, sizes in parameters, durations in
    seconds.
    """

    def __init__(
        self, folder: RunFolder, config: StudyConfig, past: Past, *, trust: bool = False
    ) -> None:
        self.folder, self.config, self.records = folder, config, past.ended
        self._past, self._trust = past, trust

    @cached_property
    def conclusion(self) -> Conclusion:
        """All statistics as values: optima, laws, audits of early stopping, paper analyses."""
        return conclude_run(self.folder, self.config, self._past)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Data frames by kind of row: `trials`, `curves`, `optima`, `depths`, `laws`, ..."""
        frames = {
            name: pd.DataFrame(map(_with_lists, rows))
            for name, rows in tables(self.conclusion).items()
        }
        if "trials" in frames:
            for name in ("started", "ended"):
                seconds = frames["trials"].pop(f"{name}_unix_seconds")
                frames["trials"][name] = pd.to_datetime(seconds, unit="s", utc=True)
        if "curves" in frames:
            times = [point.time for record in self.records for point in record.curve]
            frames["curves"]["time"] = pd.to_datetime(times, unit="s", utc=True)
        return Tables(frames)

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
        """A row for each budget: the best depth, its interval, its plateau and its verdict."""
        return self._frame("optima")

    @cached_property
    def figures(self) -> dict[str, ShownFigure]:
        """Figures of the report by name, to show, change or save."""
        return {chart.key: static(chart) for chart in make_charts(self.conclusion)}

    @property
    def law(self) -> Law:
        """The law that predicts the budgets of the study best.

        Raises:
            ConfigError: if no law can be fitted.
        """
        return laws_of(self.conclusion.optima, self.folder.path).laws[0]

    def predict(self, params: str | float) -> Prediction:
        """The best depth at a size, such as `"1B"`, by the laws of the study, each weighed by
        how well it fits.

        Raises:
            ValueError: if there is no law, or the best depth would be below 1 at this size.
        """
        return laws_of(self.conclusion.optima, self.folder.path).predict(parse_count(params))

    def shape(self, budget: str | int) -> Shape:
        """The best shape of a budget, such as `"1M"`.

        Raises:
            ConfigError: if the study has none at this budget.
        """
        return self._best(budget).shape

    def plan(self, gpu: str | None = None) -> pd.DataFrame:
        """A row for each budget: shapes, depths, trials, rungs, FLOPs and hours on this machine, or
        on GPUs of a type such as `"H100"`.

        Raises:
            ConfigError: if a budget has too few shapes, the type of GPU is unknown, or the
                objective is not trusted.
        """
        check_trusted(self.config, self.folder.config, trust=self._trust)
        machine = this_machine(self.config.resources, self.config.train, gpu)
        plans = plan_study(self.config, vocab_size_of(self.config.objective), machine)
        rows = budget_plans(plans, with_shapes=False)
        return pd.DataFrame([row.model_dump(exclude={"horizon", "shape_list"}) for row in rows])

    def train(
        self,
        budget: str | int,
        *,
        tokens: str | int | None = None,
        corpus: str | None = None,
        out: str | Path = "trained",
        say: Callable[[str], None] = print,
    ) -> Path:
        """Trains the best shape of a budget as `fathom train` does; a second call resumes it.

        Returns the file of its weights, `out/weights.pt`, or the folder in which `train.command`
        keeps its checkpoints. `say` gets a line for each evaluation.

        Raises:
            ConfigError: if the study has no shape at this budget, can't be trained with these
                `tokens` or this `corpus`, or names an objective that is not trusted.
        """
        check_trusted(self.config, self.folder.config, trust=self._trust)
        horizon = None if tokens is None else str(tokens)
        best = self._best(budget)
        cache = token_cache(self.folder.path.parent)
        return train_best(best, tokens=horizon, corpus=corpus, out=Path(out), cache=cache, say=say)

    def export(
        self,
        budget: str | int,
        *,
        format: str = "yaml",
        out: str | Path,
        weights: str | Path | None = None,
        nearest: bool = False,
    ) -> Path:
        """Writes the best shape of a budget as `fathom export` does, and returns its path.

        `format` is `yaml` for a file, or `hf`, `litgpt`, `nanogpt`, `torchtitan` for a folder.
        `weights` is a folder of `train`. With `nearest`, RMSNorm may stand for another norm.

        Raises:
            ConfigError: if the study has no shape at this budget, or the format can't hold the
                shape.
        """
        best, folder = self._best(budget), Path(out)
        if format == "yaml" and weights is None and not nearest:
            alone = replace(self.conclusion, optima=(self._optimum(budget),))
            write_atomically(folder, best_yaml(alone))
        else:
            taken = None if weights is None else Path(weights)
            export_folder(best, format, folder, taken, nearest=nearest)
        return folder

    def __repr__(self) -> str:
        answers = "\n".join(f"  {answer(optimum)}" for optimum in self.conclusion.optima)
        return (
            f"Study {self.config.study} in {self.folder.path}\n{answers or '  no trial has ended'}"
        )

    def _best(self, budget: str | int) -> BestShape:
        optimum = self._optimum(budget)
        assert optimum.shape is not None
        # As in best.yaml: where the search was tracked does not matter to a training.
        config = changed(self.config, {"tracking": TrackingConfig()})
        return shape_to_train(config, optimum.budget, optimum.shape, optimum.tokens)

    def _optimum(self, budget: str | int) -> Optimum:
        found = {optimum.budget: optimum for optimum in self.conclusion.optima if optimum.shape}
        try:
            return found[parse_count(budget)]
        except (ValueError, KeyError) as error:
            known = ", ".join(map(format_count, found)) or "none"
            raise ConfigError(
                f"`budget` must be one with a best shape, {known}, got {budget}"
            ) from error

    def _frame(self, name: str) -> pd.DataFrame:
        return self.tables.get(name, pd.DataFrame())


def load(
    run_folder: str | Path, *, horizon: str | float | None = None, trust: bool = False
) -> Study:
    """Returns the study of a run folder, `runs/NAME`, or one of its horizons, such as 20 or
    `"10M"`; its search may still be running.

    Loading runs no code that the folder names. The study's `plan` and `train` import the class of
    its objective, and only with `trust`, as commands do with `--trust`.

    Raises:
        RunFolderError: if it is not a run folder, or is of several horizons and none is named.
    """
    run = one_run(Path(run_folder), None if horizon is None else str(horizon))
    return Study(run.folder, run.config, read_run(run.folder, run.config), trust=trust)


def run(
    study: str | Path | Mapping[str, Any] | StudyConfig,
    *,
    runs: str | Path = "runs",
    trust: bool = False,
) -> Study:
    """Searches a study as `fathom run` does, from its file or its keys; a second call resumes it.

    A run folder's `config.yaml` may name a class as its objective, which is imported only with
    `trust`; a study file of your own needs none.

    Call this under `if __name__ == "__main__":` in a script, because processes draw the figures.

    Raises:
        ValueError: before any trial starts, if the study can't be run or has several horizons.
    """
    config = _config(study)
    if config.horizons:
        raise ConfigError(f"{config.study} has `horizons`; call `run_horizons` for it")
    [found] = _run(config, study, Path(runs), trust=trust)
    return found


def run_horizons(
    study: str | Path | Mapping[str, Any] | StudyConfig,
    *,
    runs: str | Path = "runs",
    trust: bool = False,
) -> dict[str, Study]:
    """Searches a study of several horizons as `fathom run` does; a second call resumes it.

    Returns the studies by the names of their horizons, such as `"20"` or `"10M"`. In a script, call
    it as `run` is called.

    Raises:
        ValueError: before any trial starts, if the study can't be run or has one horizon only.
    """
    config = _config(study)
    if not config.horizons:
        raise ConfigError(f"{config.study} has no `horizons`; call `run` for it")
    found = _run(config, study, Path(runs), trust=trust)
    return {str(horizon_name(each.config)): each for each in found}


def _run(config: StudyConfig, study: object, runs: Path, *, trust: bool) -> list[Study]:
    """Searches each run of a study; `study` is what the caller gave, for example the path of its
    file."""
    if isinstance(study, str | Path):
        check_trusted_study(config, Path(study), trust=trust)
    check_sampler(config)
    ready = check_ready(config, runs, trust=trust)
    with locked(ready.folder), Steps(terminal()) as steps:
        result = run_study(ready, steps)
    return [load(run.folder.path, trust=True) for run in result.runs]


def analyse(
    source: Any,
    *,
    params: Sequence[str] = (),
    count: Count | None = None,
    horizons: Sequence[str] = (),
    noise: float | None = None,
    best_of: Sequence[str] = (),
    maps: Sequence[str] = (),
    experiment: str | None = None,
) -> Analysis:
    """The answers of runs that exist, as `fathom analyse` gives them with these options.

    `source` is what the command takes, or what `Tuner.fit()` of Ray returns: a `ResultGrid` whose
    trials had a `depth` in their configuration, and reported a `loss` and their size, for example
    `ShapeSpace.config(shape)`. Trials that were stopped early count as far as they trained.

    Raises:
        ValueError: if the runs can't be read, or do not have what is asked.
    """
    question = question_of(
        count=count, budgets=params, width=0.1, horizons=horizons, noise=noise, best_of=best_of
    )
    if not isinstance(source, str | Path):
        return analyse_table(
            rows_of("Ray's results", _grid_rows(source)), parse_maps(maps), question
        )
    return answer_source(str(source), maps, question, experiment)


def _grid_rows(results: Iterable[Any]) -> list[dict[str, Any]]:
    """A row for each report of each of Ray's trials; of a trial that failed, the reports before its
    error."""
    rows = []
    for number, result in enumerate(results):
        frame = result.metrics_dataframe
        for report in () if frame is None else frame.to_dict("records"):
            told = {k: v for k, v in report.items() if not RAY_OWN.fullmatch(k)}
            step = told.pop("training_iteration", None)
            rows.append({"trial": number, "step": step} | dict(result.config) | told)
    return rows


def _with_lists(row: Mapping[str, object]) -> dict[str, object]:
    return {key: list(cell) if isinstance(cell, tuple) else cell for key, cell in row.items()}


def _config(study: str | Path | Mapping[str, Any] | StudyConfig) -> StudyConfig:
    if isinstance(study, StudyConfig):
        return study
    return study_of(study) if isinstance(study, Mapping) else read_study(Path(study))
