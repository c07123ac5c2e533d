"""A study in MLflow: a run for the study, a child for each budget, a grandchild for each trial.

Every run has a tag with a key, by which it is found again after a restart, so repeating a write
changes nothing.
"""

import re
import uuid
from getpass import getuser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.formatting import format_count
from fathom.search.records import TrialRecord
from fathom.search.report.live.answer_log import AnswerSeries
from fathom.search.report.words.text import summary_table
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.artifacts import check_artifacts
from fathom.search.tracking.stores.messages import DataSet, TrackedStudy
from fathom.search.tracking.writing import metrics, pages, views
from fathom.search.tracking.writing.tracked_run import TrackedPoint, TrackedRun, milliseconds
from fathom.search.tracking.writing.views import NODE_TAG

STUDY_TAG = "fathom.study"
"""Tag with the key of the run folder, on every run, and on an experiment that Fathom made."""
STUDY_NODE, MACHINE_NODE = "study", "machine"
"""Values of the node tag for the study's run, and for its child run with the load of the
machine."""
MACHINE_NAME = "CPU, memory, disk, network"
"""Name of the child run with the load of the machine."""
INTERRUPTED = "interrupted"
"""Value of the tag `outcome` for a trial that was running when the search ended."""
FILES_TAG = "fathom.files_written"
"""Tag on the study's run with the bytes of the run folder's files whose trials it has."""
OF_NO_TRIAL, OF_TRIALS = "tags.outcome IS NULL", f"tags.`{NODE_TAG}` LIKE 'trial/%'"
"""Queries for the runs of the study, its budgets and the machine, and for those of the trials,
which may be tens of thousands."""
KEY = re.compile(r"[0-9a-f]{32}")
"""Pattern of a run folder's key, which is inserted into MLflow's queries without escaping."""
PAGE_RUNS = 1000
"""Most runs that the server lists in one answer."""


class StudyRuns:
    """The runs of one study on one server. Any call may raise; a new object finds the same runs
    again."""

    def __init__(self, study: TrackedStudy, written_to: str = "") -> None:
        """`written_to` is what `end` returned when all trials had been written; empty if some may
        not have been."""
        self._study, self._folder = study, RunFolder(study.folder)
        self._key = study_key(study.folder)
        self._client = store.connect(study.uri)
        self._experiment = self._find_or_create_experiment()
        self._known = self._existing(OF_NO_TRIAL)
        run = self._known.get(STUDY_NODE)
        self._last_end = run.ended if run else 0.0
        self._ends: dict[int, float] = {}
        """Budget -> Unix time at which the last of its trials that were written ended."""
        self.has_all_trials = bool(written_to) and written_to == _noted(run)
        """True if every trial is known to be written, so that their runs are not loaded."""
        if not self.has_all_trials:
            self._known |= self._existing(OF_TRIALS)

    @property
    def study_run(self) -> TrackedRun:
        """The study's run, open."""
        run = self._known.get(STUDY_NODE)
        if run is None:
            run = self._create(STUDY_NODE, self._study.study)
        run.reopen()
        return run

    @property
    def machine_run(self) -> TrackedRun:
        """The open run for the load of the machine; on the study's run, the load would hide the
        answers."""
        run = self._known.get(MACHINE_NODE)
        run = run or self._create(MACHINE_NODE, MACHINE_NAME, self.study_run)
        run.reopen()
        return run

    def write_study(self, config_text: str) -> None:
        """Writes the study's run: its settings, the file it was started with, and the view that
        lists the answers."""
        run = self.study_run
        # MLflow lets no parameter change; a resumed study may have other resources, say.
        settings = metrics.study_params(config_text).items()
        run.write(params={key: value for key, value in settings if key not in run.params})
        self._say_without_answer(pages.UNDER_WAY)
        self._log_text(run.id, config_text, "config.yaml")
        self._write_views(views.answers_view())

    def write_data(self, data: DataSet) -> None:
        """Writes the data set that the study trains on; MLflow identifies a data set by its name
        and digest."""
        found = Dataset(data.name, data.digest, data.source_type, data.source, profile=data.profile)
        context = InputTag("mlflow.data.context", "training")
        self._client.log_inputs(self.study_run.id, [DatasetInput(found, [context])])

    def write_trial(self, record: TrialRecord) -> None:
        """Writes to a trial's MLflow run what the run does not have yet."""
        spec, node = record.spec, f"trial/{record.spec.trial}"
        last = record.curve[-1].time if record.curve else 0.0
        end = self._ends[spec.budget] = max(self._ends.get(spec.budget, 0.0), record.ended or last)
        self._last_end = max(self._last_end, end)
        run = self._known.get(node)
        if run is not None and _is_complete(run, record):
            return
        parent = self._budget_run(spec.budget, record.started)
        parent.reopen()
        parent.write(params=metrics.budget_params(spec))
        if run is None:
            run = self._create(node, pages.trial_name(spec), parent, record.started)
        if record.outcome is None:
            run.reopen()
        run.write(
            [TrackedPoint(p.tokens, p.time, metrics.point_metrics(p)) for p in record.curve],
            params=metrics.trial_params(spec),
            metrics=metrics.summary_metrics(record) if record.outcome else {},
            layers=metrics.layer_metrics(record) if record.outcome else {},
            tags=pages.trial_tags(record),
            seconds=record.ended or record.started,
        )
        if record.outcome is not None:
            run.end(pages.STATUS[record.outcome], record.ended)

    def write_answers(self, series: AnswerSeries) -> None:
        """Writes those interim answers that a budget's run lacks; steps are the tokens spent by its
        search."""
        run = self._budget_run(series.budget, series.answers[0].time)
        concluded = run.tags.get("verdict", pages.SO_FAR) != pages.SO_FAR
        run.write(
            [TrackedPoint(a.tokens, a.time, metrics.answer_metrics(a)) for a in series.answers],
            tags={} if concluded else pages.answer_tags(series.answers[-1]),
        )

    def write_conclusion(self, conclusion: Conclusion) -> None:
        """Writes the answers: to each budget's run, to the study's run, and to the experiment."""
        for optimum in conclusion.optima:
            run, audits = self._budget_run(optimum.budget), conclusion.audits_of(optimum.budget)
            numbers = metrics.budget_metrics(optimum) | metrics.audit_metrics(audits)
            run.write(metrics=numbers, tags=pages.budget_tags(optimum, audits))
            run.rename(pages.budget_name(optimum))
            if optimum.kind is not Kind.UNFINISHED:  # also where an interrupt ended the run before
                ended = self._ends.get(optimum.budget) or run.ended or self._last_end
                run.end("FINISHED", ended or None)
        self.write_summary(conclusion)

    def write_summary(self, conclusion: Conclusion) -> None:
        """Writes the answers and their files to the study's run, and to the experiment."""
        study = self.study_run
        page = f"#/experiments/{self._experiment}/runs/{study.id}"
        files = [(path, pages.artifact(path)) for path in self._folder.results()]
        note = pages.study_note(conclusion, files=files, page=page, run_id=study.id)
        study.write(
            tags={pages.NOTE: note, **pages.study_tags(conclusion.optima, conclusion.config)}
        )
        study.write_steps(metrics.study_metrics(conclusion.optima))
        if STUDY_TAG in self._client.get_experiment(self._experiment).tags:
            note = pages.experiment_note(conclusion.optima, page, self._experiment)
            self._client.set_experiment_tag(self._experiment, pages.NOTE, note)
        self._write_views(views.views(conclusion.optima))
        self._log_text(study.id, summary_table(conclusion.optima), "optima.md")
        for path, name in files:
            self._log_file(study.id, path, name.rpartition("/")[0] or None)

    def end(self, *, concluded: bool, files: str = "") -> str:
        """Ends every open run: now if the search was interrupted, otherwise when its last trial
        ended. An interrupted run opens again when the study is resumed.

        `files` are the bytes of the run folder's files if all their trials have been written.
        Returns them with the id of the study's run; empty without them.
        """
        if not concluded and STUDY_NODE in self._known:
            self._say_without_answer(pages.BROKEN_OFF)
        now = self._study.searching and not concluded
        for node, run in self._known.items():
            if run.status != "RUNNING":
                continue
            is_trial = node.startswith("trial/")
            if is_trial:
                run.write(tags={"outcome": INTERRUPTED, pages.NOTE: f"**{INTERRUPTED}**"})
            done = concluded and not is_trial
            run.end("FINISHED" if done else "KILLED", None if now else self._last_end or None)
        if files and STUDY_NODE in self._known:  # last: now no run of a trial is open
            self._known[STUDY_NODE].write(tags={FILES_TAG: files})
        return _noted(self._known.get(STUDY_NODE)) if files else ""

    def _say_without_answer(self, state: str) -> None:
        """Describes the study, and the experiment if it is the study's own, while neither has an
        answer."""
        without, experiment = (pages.UNDER_WAY, pages.BROKEN_OFF), self._experiment
        if self.study_run.tags.get(pages.NOTE) in without:
            self.study_run.write(tags={pages.NOTE: state})
        tags = self._client.get_experiment(experiment).tags
        if STUDY_TAG in tags and tags.get(pages.NOTE) in without:
            self._client.set_experiment_tag(experiment, pages.NOTE, state)

    def _log_text(self, run: str, text: str, name: str) -> None:
        with TemporaryDirectory() as home:
            file = Path(home, name)
            file.write_text(text, encoding="utf-8")
            self._log_file(run, file)

    def _log_file(self, run: str, file: Path, folder: str | None = None) -> None:
        """Writes a file to the artifacts of a run, at exactly the address that was checked.

        Raises:
            TrackingError: if the store is no longer as it was made here.
        """
        if self._study.trusted:
            self._client.log_artifact(run, str(file), folder)
            return
        address = self._client.get_run(run).info.artifact_uri
        check_artifacts(self._study, address)
        # Its methods have no types.
        place: Any = get_artifact_repository(address, tracking_uri=self._study.uri)
        place.log_artifact(str(file), folder)

    def _write_views(self, contents: dict[str, str]) -> None:
        """Writes views of MLflow's page; they belong to the experiment, which may not be
        Fathom's."""
        if STUDY_TAG not in self._client.get_experiment(self._experiment).tags:
            return
        for name, view in contents.items():
            self._client.set_experiment_tag(self._experiment, views.TAG + name, view)

    def _budget_run(self, budget: int, started: float | None = None) -> TrackedRun:
        node = f"budget/{budget}"
        run = self._known.get(node)
        if run is None:
            run = self._create(node, format_count(budget), self.study_run, started)
            run.write(metrics={"budget": float(budget)})  # the list is in this order
        return run

    def _create(
        self, node: str, name: str, parent: TrackedRun | None = None, started: float | None = None
    ) -> TrackedRun:
        place = {"mlflow.parentRunId": parent.id} if parent else {pages.NOTE: pages.UNDER_WAY}
        tags = place | {
            STUDY_TAG: self._key,
            NODE_TAG: node,
            "mlflow.user": getuser(),
            "mlflow.source.name": "fathom",
            "mlflow.source.type": "LOCAL",
        }
        began = milliseconds(started or self._study.began)
        created = self._client.create_run(
            self._experiment, start_time=began, tags=tags, run_name=name
        )
        self._known[node] = TrackedRun(self._client, created)
        return self._known[node]

    def _existing(self, query: str) -> dict[str, TrackedRun]:
        """The runs of this study that a query finds, by node."""
        query, token = f"tags.`{STUDY_TAG}` = '{self._key}' AND {query}", None
        runs: dict[str, TrackedRun] = {}
        while True:
            found = self._client.search_runs(
                [self._experiment], query, max_results=PAGE_RUNS, page_token=token
            )
            runs |= {run.data.tags[NODE_TAG]: TrackedRun(self._client, run) for run in found}
            token = found.token
            if not token:
                return runs

    def _find_or_create_experiment(self) -> str:
        name = self._study.study
        found = self._client.get_experiment_by_name(name)
        if found is None:
            tags = {
                STUDY_TAG: name,
                pages.NOTE: pages.UNDER_WAY,
                # Else MLflow guesses, and may open the page on traces of language-model calls.
                "mlflow.experimentKind": "custom_model_development",
            }
            artifacts = store.artifact_location(self._study.uri, name)
            return self._client.create_experiment(name, artifacts, tags)
        if found.lifecycle_stage != "active":
            self._client.restore_experiment(found.experiment_id)
        return found.experiment_id


def study_key(folder: Path) -> str:
    """Key of a run folder: the same each time the study is resumed, a new one for a fresh start.

    Raises:
        FileNotFoundError: when the run folder was deleted; it is not made again.
    """
    path = RunFolder(folder).state / "tracking-key"
    key = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if not KEY.fullmatch(key):
        key = uuid.uuid4().hex
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, key)
    return key


def _noted(run: TrackedRun | None) -> str:
    """The id of a study's run and the bytes of the files that it has; empty if not known."""
    files = run.tags.get(FILES_TAG) if run else None
    return f"{run.id} {files}" if run and files else ""


def _is_complete(run: TrackedRun, record: TrialRecord) -> bool:
    """True if the run has all of the record, so that nothing is written."""
    outcome = record.outcome.value if record.outcome else INTERRUPTED
    return (
        run.status == (pages.STATUS[record.outcome] if record.outcome else "KILLED")
        and run.tags.get("outcome") == outcome
        and run.tokens_written == record.tokens
    )
