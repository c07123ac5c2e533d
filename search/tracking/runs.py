"""A study in MLflow: a run for the study, a child for each budget, a grandchild for each trial.

Every run carries a key, by which it is found again after a restart, so writing anything twice
leaves what writing it once does.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.entities import Run as MlflowRun

from fathom.search.analysis.interim import SoFar
from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion import Conclusion
from fathom.search.formatting import format_count
from fathom.search.records import CurvePoint, TrialRecord
from fathom.search.report.answer_log import Trail
from fathom.search.report.text import summary_table
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.audit import RungAudit
from fathom.search.tracking import metrics as numbers
from fathom.search.tracking import pages, views
from fathom.search.tracking.messages import DataSet

STUDY_TAG = "fathom.study"
"""On every run: which start of which study. On the experiment: that Fathom made it."""
NODE_TAG = "fathom.node"
"""On every run: `study`, `budget/NUMBER` or `trial/NAME`."""
WRITTEN_TAG = "fathom.tokens_written"
"""On a trial's run: tokens of the last curve point written, in the same batch as the point. On a
budget's: of its last answer so far."""
STUDY_NODE = "study"
BATCH_METRICS = 400
"""Of curves, and of layers, a request; MLflow takes 1000 in all."""
BATCH_ANSWERS = 50
PAGE_RUNS = 1000
"""Runs a request when looking what exists."""

T = TypeVar("T")


@dataclass(slots=True)
class TrackedRun:
    """What is known of a run on the server."""

    run_id: str
    status: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]


class StudyRuns:
    """The runs of one study on one server. Any call may raise; a new object finds all again."""

    def __init__(
        self, client: MlflowClient, *, study: str, key: str, folder: Path, artifacts: str | None
    ) -> None:
        self._client, self._study, self._key, self._folder = client, study, key, RunFolder(folder)
        self._experiment = self._find_or_create_experiment(artifacts)
        self._known = {run.tags[NODE_TAG]: run for run in self._existing()}

    def write_study(self, config_text: str) -> None:
        """The study's run, its settings, and the file it was started with."""
        run = self._study_run()
        # MLflow lets no parameter change; a resumed study may have other resources, say.
        settings = numbers.study_params(config_text).items()
        self._update(run, params={k: v for k, v in settings if k not in run.params})
        self._client.log_text(run.run_id, config_text, "config.yaml")

    def write_data(self, data: DataSet) -> None:
        """What the study trains on; MLflow knows a data set by its name and digest."""
        own = Dataset(data.name, data.digest, data.source_type, data.source, profile=data.profile)
        context = InputTag("mlflow.data.context", "training")
        self._client.log_inputs(self._study_run().run_id, [DatasetInput(own, [context])])

    @property
    def study_run_id(self) -> str:
        """The study's run, which goes on."""
        return self._study_run().run_id

    def write_trial(self, record: TrialRecord) -> None:
        """Whatever of a trial is not there yet."""
        spec = record.spec
        run = self._known.get(f"trial/{spec.trial}")
        if run is not None and _is_complete(run, record):
            return
        parent = self._find_or_create(
            f"budget/{spec.budget}",
            name=format_count(spec.budget),
            parent=self._study_run(),
            started=record.started,
        )
        self._reopen(parent)
        self._update(parent, params=numbers.budget_params(spec))
        run = self._find_or_create(
            f"trial/{spec.trial}",
            name=pages.trial_name(spec),
            parent=parent,
            started=record.started,
        )
        if record.outcome is None:
            self._reopen(run)
        self._update(
            run,
            points=self._write_curve(run, record.curve),
            params=numbers.trial_params(spec),
            metrics=numbers.summary_metrics(record) if record.outcome else {},
            layers=record.layers if record.outcome else {},
            tags=pages.trial_tags(record),
            time_seconds=record.ended or record.started,
        )
        if record.outcome is not None:
            self._end(run, pages.STATUS[record.outcome], record.ended)

    def write_trail(self, trail: Trail) -> None:
        """The answers of a budget that are not there yet; steps are the tokens of its search."""
        run = self._find_or_create(
            f"budget/{trail.budget}",
            name=format_count(trail.budget),
            parent=self._study_run(),
            started=trail.answers[0].time,
        )
        written = int(run.tags.get(WRITTEN_TAG, "0"))
        ahead = [answer for answer in trail.answers if answer.tokens > written]
        while ahead:
            batch, ahead = ahead[:BATCH_ANSWERS], ahead[BATCH_ANSWERS:]
            self._write_answers(run, batch)

    def write_conclusion(self, conclusion: Conclusion) -> None:
        """The answers: on each budget's run, on the study's run, and on the experiment."""
        for optimum in conclusion.optima:
            self._write_optimum(optimum, conclusion.audits_of(optimum.budget))
        study = self._study_run()
        page = f"#/experiments/{self._experiment}/runs/{study.run_id}"
        table = summary_table(conclusion.optima)
        files = [
            (path, path.relative_to(self._folder.path).as_posix())
            for path in self._folder.results()
        ]
        note = pages.study_note(
            conclusion.optima,
            conclusion.laws,
            table,
            files=files,
            page=page,
            run_id=study.run_id,
        )
        self._update(study, tags={pages.NOTE: note, **pages.study_tags(conclusion.optima)})
        self._write_steps(study, numbers.study_metrics(conclusion.optima))
        if STUDY_TAG in self._client.get_experiment(self._experiment).tags:
            note = pages.experiment_note(conclusion.optima, page, self._experiment)
            self._client.set_experiment_tag(self._experiment, pages.NOTE, note)
            for name, view in views.views(conclusion.optima).items():
                self._client.set_experiment_tag(self._experiment, views.TAG + name, view)
        self._client.log_text(study.run_id, table, "optima.md")
        for path, name in files:
            self._client.log_artifact(study.run_id, str(path), name.rpartition("/")[0] or None)

    def end(self, *, concluded: bool) -> None:
        """Leave no run open. What was cut short opens again when the study goes on."""
        for node, run in self._known.items():
            if run.status != "RUNNING":
                continue
            is_trial = node.startswith("trial/")
            if is_trial:
                self._update(run, tags={"outcome": "interrupted", pages.NOTE: "**interrupted**"})
            self._end(run, "FINISHED" if concluded and not is_trial else "KILLED", None)

    def _write_optimum(self, optimum: Optimum, audits: Sequence[RungAudit]) -> None:
        run = self._find_or_create(
            f"budget/{optimum.budget}",
            name=pages.budget_name(optimum),
            parent=self._study_run(),
            started=time.time(),
        )
        self._update(
            run,
            metrics=numbers.budget_metrics(optimum) | numbers.audit_metrics(audits),
            tags=pages.budget_tags(optimum, audits),
        )
        if run.name != (name := pages.budget_name(optimum)):
            self._client.update_run(run.run_id, name=name)
            run.name = name

    def _write_steps(self, run: TrackedRun, metrics: Iterable[tuple[str, float, int]]) -> None:
        """Metrics whose steps are budgets, but for those that say the same already."""
        known: dict[str, dict[int, float]] = {}
        now, news = _milliseconds(time.time()), []
        for key, value, step in metrics:
            if key not in known:
                history = self._client.get_metric_history(run.run_id, key)
                ordered = sorted(history, key=lambda metric: metric.timestamp)
                known[key] = {metric.step: metric.value for metric in ordered}
            if known[key].get(step) != value:
                news.append(Metric(key, value, now, step))
        if news:
            self._client.log_batch(run.run_id, metrics=news)

    def _write_answers(self, run: TrackedRun, answers: Sequence[SoFar]) -> None:
        """In one request with the tag that says so."""
        tags = {WRITTEN_TAG: str(answers[-1].tokens)}
        self._client.log_batch(
            run.run_id,
            metrics=[
                Metric(key, value, _milliseconds(answer.time), answer.tokens)
                for answer in answers
                for key, value in numbers.answer_metrics(answer).items()
            ],
            tags=[RunTag(key, value) for key, value in tags.items()],
        )
        run.tags |= tags

    def _write_curve(self, run: TrackedRun, curve: Sequence[CurvePoint]) -> Sequence[CurvePoint]:
        """Write the points past the last one written, so that a resumed trial repeats none.

        The last of them are returned, to go with the rest of the trial in one request: each takes
        MLflow some ten milliseconds.
        """
        written = int(run.tags.get(WRITTEN_TAG, "0"))
        ahead = [point for point in curve if point.tokens > written]
        most = max((len(point.metrics) for point in ahead), default=0) + 2  # and two losses
        points = max(1, BATCH_METRICS // most)
        while len(ahead) > points:
            batch, ahead = ahead[:points], ahead[points:]
            self._update(run, points=batch)
        return ahead

    def _update(
        self,
        run: TrackedRun,
        *,
        points: Sequence[CurvePoint] = (),
        metrics: Mapping[str, float] | None = None,
        layers: Mapping[str, Sequence[float]] | None = None,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        time_seconds: float | None = None,
    ) -> None:
        """Write what differs from what is there, in one request, or in none."""
        stamp = _milliseconds(time_seconds or time.time())
        new_metrics = _news(metrics or {}, run.metrics)
        new_params = _news(params or {}, run.params)
        written = {WRITTEN_TAG: str(points[-1].tokens)} if points else {}
        new_tags = _news({**(tags or {}), **written}, run.tags)
        curve = [metric for point in points for metric in _point_metrics(point)]
        by_layer = list(_layer_metrics(layers or {}, run.metrics, stamp))
        while len(by_layer) > BATCH_METRICS:
            self._client.log_batch(run.run_id, metrics=by_layer[:BATCH_METRICS])
            by_layer = by_layer[BATCH_METRICS:]
        if not (new_metrics or new_params or new_tags):
            return
        self._client.log_batch(
            run.run_id,
            metrics=curve
            + by_layer
            + [Metric(key, value, stamp, 0) for key, value in new_metrics.items()],
            params=[Param(key, value) for key, value in new_params.items()],
            tags=[RunTag(key, value) for key, value in new_tags.items()],
        )
        run.metrics |= new_metrics
        run.params |= new_params
        run.tags |= new_tags

    def _study_run(self) -> TrackedRun:
        run = self._known.get(STUDY_NODE)
        if run is None:
            tags = {pages.NOTE: pages.UNDER_WAY}
            run = self._create(STUDY_NODE, name=self._study, tags=tags, started=time.time())
        self._reopen(run)
        return run

    def _find_or_create(
        self, node: str, *, name: str, parent: TrackedRun, started: float
    ) -> TrackedRun:
        if node in self._known:
            return self._known[node]
        tags = {"mlflow.parentRunId": parent.run_id}
        return self._create(node, name=name, tags=tags, started=started)

    def _create(self, node: str, *, name: str, tags: dict[str, str], started: float) -> TrackedRun:
        tags |= {
            STUDY_TAG: self._key,
            NODE_TAG: node,
            "mlflow.user": getuser(),
            "mlflow.source.name": "fathom",
            "mlflow.source.type": "LOCAL",
        }
        created = self._client.create_run(
            self._experiment, start_time=_milliseconds(started), tags=tags, run_name=name
        )
        self._known[node] = _known(created)
        return self._known[node]

    def _reopen(self, run: TrackedRun) -> None:
        if run.status != "RUNNING":
            self._client.update_run(run.run_id, status="RUNNING")
            run.status = "RUNNING"

    def _end(self, run: TrackedRun, status: str, ended: float | None) -> None:
        stamp = _milliseconds(ended or time.time())
        self._client.set_terminated(run.run_id, status=status, end_time=stamp)
        run.status = status

    def _existing(self) -> Iterator[TrackedRun]:
        query, token = f"tags.`{STUDY_TAG}` = '{self._key}'", None
        while True:
            found = self._client.search_runs(
                [self._experiment], query, max_results=PAGE_RUNS, page_token=token
            )
            yield from map(_known, found)
            token = found.token
            if not token:
                return

    def _find_or_create_experiment(self, artifacts: str | None) -> str:
        found = self._client.get_experiment_by_name(self._study)
        if found is None:
            tags = {
                STUDY_TAG: self._study,
                pages.NOTE: pages.UNDER_WAY,
                # Else MLflow guesses, and may open the page on traces of language-model calls.
                "mlflow.experimentKind": "custom_model_development",
            }
            return self._client.create_experiment(self._study, artifacts, tags)
        if found.lifecycle_stage != "active":
            self._client.restore_experiment(found.experiment_id)
        return found.experiment_id


def _known(run: MlflowRun) -> TrackedRun:
    return TrackedRun(
        run.info.run_id,
        run.info.status,
        run.info.run_name or "",
        dict(run.data.tags),
        dict(run.data.params),
        dict(run.data.metrics),
    )


def _is_complete(run: TrackedRun, record: TrialRecord) -> bool:
    return (
        record.outcome is not None
        and run.status == pages.STATUS[record.outcome]
        and run.tags.get("outcome") == record.outcome.value
        and run.tags.get(WRITTEN_TAG, "0") == str(record.tokens)
    )


def _point_metrics(point: CurvePoint) -> Iterator[Metric]:
    """Steps are tokens: at equal tokens trials compare. The time is the evaluation's own."""
    stamp = _milliseconds(point.time)
    for key, value in numbers.point_metrics(point):
        yield Metric(key, value, stamp, point.tokens)


def _layer_metrics(
    layers: Mapping[str, Sequence[float]], known: Mapping[str, float], stamp: int
) -> Iterator[Metric]:
    """Steps are layers, from 1; nothing of what is there."""
    for name, values in layers.items():
        if (key := numbers.layer_name(name)) not in known:
            for layer, value in enumerate(values, start=1):
                yield Metric(key, value, stamp, layer)


def _news(values: Mapping[str, T], known: Mapping[str, T]) -> dict[str, T]:
    return {key: value for key, value in values.items() if known.get(key) != value}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
