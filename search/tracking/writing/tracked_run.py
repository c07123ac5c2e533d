"""One run of MLflow together with what it is known to hold, so that only differences are
written."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.entities import Run as MlflowRun

WRITTEN_TAG = "fathom.tokens_written"
"""Tag with the tokens of the last point that a run has; it is written in one request with the
point."""
BATCH_METRICS = 400
"""Most metrics of points in a request, and also most metrics of layers; MLflow accepts 1000 in
all."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrackedPoint:
    """The metrics of a run at one moment; their step is the moment's tokens, so that trials can be
    compared."""

    tokens: int
    time: float
    """Unix time of the moment."""
    metrics: Mapping[str, float]


class TrackedRun:
    """One MLflow run on its server; every method may raise MLflow's exceptions."""

    def __init__(self, client: MlflowClient, run: MlflowRun) -> None:
        self._client = client
        self.id, self.status, self.name = run.info.run_id, run.info.status, run.info.run_name or ""
        self.tags, self.params = dict(run.data.tags), dict(run.data.params)
        self.metrics = dict(run.data.metrics)
        self.ended = (run.info.end_time or 0) / 1000
        """Unix time of its end; 0 if it has not ended."""

    @property
    def tokens_written(self) -> int:
        """Tokens of the last point that was written to the run."""
        return int(self.tags.get(WRITTEN_TAG, "0"))

    def write(
        self,
        points: Sequence[TrackedPoint] = (),
        *,
        layers: Mapping[str, Sequence[float]] | None = None,
        metrics: Mapping[str, float] | None = None,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> None:
        """Writes the values that differ from those on the server; sends no request if none differs.

        Points up to the last one written are left out, so that a resumed trial repeats none.
        """
        stamp = milliseconds(seconds)
        ahead = [point for point in points if point.tokens > self.tokens_written]
        size = max(1, BATCH_METRICS // max([1, *(len(point.metrics) for point in ahead)]))
        while len(ahead) > size:
            self._write_batch(ahead[:size])
            ahead = ahead[size:]
        by_layer = [
            Metric(key, value, stamp, layer)
            for key, values in (layers or {}).items()
            if key not in self.metrics
            for layer, value in enumerate(values, start=1)
        ]
        while len(by_layer) > BATCH_METRICS:
            self._client.log_batch(self.id, metrics=by_layer[:BATCH_METRICS])
            by_layer = by_layer[BATCH_METRICS:]
        new_metrics = _changed(metrics or {}, self.metrics)
        single = [Metric(key, value, stamp, 0) for key, value in new_metrics.items()]
        self._write_batch(ahead, [*by_layer, *single], params or {}, tags or {})
        self.metrics |= new_metrics

    def write_steps(self, metrics: Iterable[tuple[str, float, int]]) -> None:
        """Writes each metric (name, value, step), if its value at that step has changed."""
        known: dict[str, dict[int, float]] = {}
        now, changed = milliseconds(), []
        for key, value, step in metrics:
            if key not in known:
                history = self._client.get_metric_history(self.id, key)
                ordered = sorted(history, key=lambda metric: metric.timestamp)
                known[key] = {metric.step: metric.value for metric in ordered}
            if known[key].get(step) != value:
                changed.append(Metric(key, value, now, step))
        if changed:
            self._client.log_batch(self.id, metrics=changed)

    def rename(self, name: str) -> None:
        """Changes the run's name."""
        if self.name != name:
            self._client.update_run(self.id, name=name)
            self.name = name

    def reopen(self) -> None:
        """Marks a run that has ended as running."""
        if self.status != "RUNNING":
            self._client.update_run(self.id, status="RUNNING")
            self.status = "RUNNING"

    def end(self, status: str, ended: float | None = None) -> None:
        """Ends the run at a Unix time, by default now."""
        self._client.set_terminated(self.id, status=status, end_time=milliseconds(ended))
        self.status = status

    def _write_batch(
        self,
        points: Sequence[TrackedPoint],
        metrics: Sequence[Metric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        curve = [
            Metric(key, value, milliseconds(point.time), point.tokens)
            for point in points
            for key, value in point.metrics.items()
        ]
        written = {WRITTEN_TAG: str(points[-1].tokens)} if points else {}
        new_params = _changed(params or {}, self.params)
        new_tags = _changed({**(tags or {}), **written}, self.tags)
        if not (metrics or new_params or new_tags):
            return
        self._client.log_batch(
            self.id,
            metrics=[*curve, *metrics],
            params=[Param(key, value) for key, value in new_params.items()],
            tags=[RunTag(key, value) for key, value in new_tags.items()],
        )
        self.params |= new_params
        self.tags |= new_tags


def milliseconds(seconds: float | None = None) -> int:
    """A Unix time, by default the present, in milliseconds, as MLflow has it."""
    return round((seconds or time.time()) * 1000)


def _changed(values: Mapping[str, T], known: Mapping[str, T]) -> dict[str, T]:
    return {key: value for key, value in values.items() if known.get(key) != value}
