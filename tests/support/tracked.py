"""A small study to be mirrored into MLflow, and a store and a run folder to do it with."""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.interim import InterimAnswer
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.law import POWER, Law
from fathom.search.analysis.losses.depth_estimates import DepthEstimate
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json, to_values
from fathom.search.records import CurvePoint, Outcome, Report, Stage, TrialRecord, TrialSpec
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.audit import RungAudit
from fathom.search.study.file.study_file import parse
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.made_here import note_store
from fathom.search.tracking.stores.messages import DataSet, TrackedStudy
from fathom.search.tracking.writing.follower import Follower
from fathom.search.tracking.writing.study_runs import StudyRuns
from tests.support.optima import not_located
from tests.support.optima import optimum as planted_optimum

STARTED = 1_700_000_000.0
SHAPE = Shape(depth=4, d_model=64, d_ff=256, n_heads=4, head_dim=16, vocab_size=256, context=64)
SPEC = TrialSpec(
    trial="1M-explore-000", study="demo", stage=Stage.EXPLORE, budget=1_000_000, count=Count.TOTAL,
    horizon_tokens=20_000_000, shape=SHAPE, seed=0, learning_rate=0.004, rate_scale=1.0,
    prunable=True,
)  # fmt: skip
TRIAL_RUN = "1M · depth 4 · d_model 64 · seed 0"
"""Name of the run of trial 0."""
CONFIG = "study: demo\nbudgets: [1M]\n"
LAW = Law(
    name=POWER, a=-3.0, b=0.4, covariance=((1.0, 0.0), (0.0, 1.0)), budgets=3, bounds=0,
    params_range=(300_000, 3_000_000), leave_one_out_error=0.1,
)  # fmt: skip
STUDY = parse(f"{CONFIG}objective: {{name: language, corpus: stdlib}}\n")


def curve(points: int, *, begin: float = STARTED) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(
            step=10 * i, tokens=1000 * i, loss=2.0 + 1 / i, train_loss=1.9 + 1 / i,
            train_seconds=0.5 * i, time=begin + i, metrics={"bits_per_byte": 3.0 + 1 / i},
        )
        for i in range(1, points + 1)
    )  # fmt: skip


def trial(
    number: int = 0, *, outcome: Outcome | None = Outcome.FINISHED, points: int = 5,
    budget: int = 1_000_000, reason: str = "",
) -> TrialRecord:  # fmt: skip
    return TrialRecord(
        spec=replace(SPEC, trial=f"{budget}-explore-{number:03d}", budget=budget, seed=number),
        outcome=outcome, reason=reason, curve=curve(points),
        rungs={1000: 3.0} if outcome is Outcome.STOPPED else {}, started=STARTED,
        ended=STARTED + 60 if outcome else None, setup_seconds=0.1, peak_memory_bytes=None,
    )  # fmt: skip


def optimum(depth: int | None = 6, *, budget: int = 1_000_000) -> Optimum:
    whole = depth or 6
    found = replace(
        planted_optimum(budget, whole, kind=Kind.IDENTIFIED if depth else Kind.INSUFFICIENT),
        count=Count.TOTAL, tokens=20_000_000, interval=(whole - 1, whole + 2), loss=1.5,
        shape=SHAPE if depth else None, curve_minimum_interval=(whole - 0.5, whole + 1.5),
        depths=(DepthEstimate(depth=4, loss=1.51, standard_error=0.002, trials=3, shape=SHAPE),),
        noise=0.004, trials={outcome.value: 1 for outcome in Outcome},
    )  # fmt: skip
    return found if depth else not_located(found, None)


def answers(
    *optima: Optimum, laws: tuple[Law, ...] = (),
    audits: dict[int, tuple[RungAudit, ...]] | None = None,
) -> Conclusion:  # fmt: skip
    found = Conclusion(config=STUDY, optima=optima or (optimum(),))
    vars(found).update(laws=laws, audits=audits or {})  # in place of those of its records
    return found


def interim(tokens: int, **changes: object) -> InterimAnswer:
    found = InterimAnswer(
        budget=1_000_000, tokens=tokens, time=STARTED + tokens, depth=4, low=None, high=None,
        verdict=None, loss=None, lowest_loss=2.5, trials={"finished": 1, "running": 2},
    )  # fmt: skip
    return replace(found, **changes)  # type: ignore[arg-type]


def write_down(folder: Path, *records: TrialRecord) -> None:
    """Append trials that begin, and have ended or not, to a run folder's files."""
    files = RunFolder(folder)
    files.state.mkdir(parents=True, exist_ok=True)
    for record in records:
        started = replace(record, outcome=None, ended=None, reason="", curve=())
        append_line(files.journal, {"event": "started", **to_json(started)})
        report = to_values(Report(points=record.curve, setup_seconds=record.setup_seconds))
        append_line(files.journal, {"event": "report", "trial": record.spec.trial, **report})
        if record.outcome is not None:
            write_end(folder, record)


def write_end(folder: Path, record: TrialRecord) -> None:
    """Append the end of a trial that has begun."""
    append_line(RunFolder(folder).records, to_json(record))


UNANSWERED_SECONDS = 60.0
"""Less than ten trials take on a server that never replies: a request is given up after 10 s."""


@dataclass(frozen=True)
class Place:
    """A store of a test's own, a run folder, and the lines that a follower says to the user."""

    uri: str
    folder: Path
    said: list[str] = field(default_factory=list)

    def study(self, study: str = "demo", text: str = CONFIG, **changes: bool) -> TrackedStudy:
        return TrackedStudy(
            uri=self.uri, study=study, folder=self.folder, config_text=text, **changes
        )

    def writer(self) -> StudyRuns:
        store.settle()
        return StudyRuns(self.study())

    def follower(self, study: str = "demo", text: str = CONFIG) -> Follower:
        return Follower(self.study(study, text), self.said.append)

    def mirror(self, *messages: Conclusion | DataSet, study: str = "demo") -> int:
        """Follow the run folder as it is to its end, and return how much is missing."""
        follower = self.follower(study)
        for message in messages:
            follower.put(message)
        return follower.close()

    def runs(self, study: str = "demo") -> list[Run]:
        client = MlflowClient(self.uri)
        experiment = client.get_experiment_by_name(study)
        assert experiment is not None
        return list(client.search_runs([experiment.experiment_id], order_by=["start_time"]))

    def find(self, name: str = TRIAL_RUN) -> Run:
        (run,) = (run for run in self.runs() if run.info.run_name == name)
        return run

    def statuses(self) -> set[str]:
        return {run.info.status for run in self.runs()}

    def tokens(self, run: Run, metric: str = "loss") -> list[int]:
        history = MlflowClient(self.uri).get_metric_history(run.info.run_id, metric)
        return [point.step for point in history]

    def everything(self) -> object:
        """All that a store holds, but for what says when it was written."""
        return sorted(
            (
                run.info.run_name,
                run.info.status,
                sorted(run.data.params.items()),
                sorted(run.data.tags.items()),
                [(key, value, self.tokens(run, key)) for key, value in run.data.metrics.items()],
            )
            for run in self.runs()
        )


def new_place(template: Path, folder: Path) -> Place:
    """A store that is a copy of a template, and a run folder, below a folder."""
    file = Path(shutil.copy(template, folder / "mlflow.db"))
    note_store(file, file)
    run = folder / "runs" / "demo"
    run.mkdir(parents=True)
    return Place(f"sqlite:///{file}", run)
