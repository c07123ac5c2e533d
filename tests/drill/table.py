"""The result of one run of the drill, from its records, journal, checkpoints and MLflow."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fathom.models.shape import Shape
from fathom.search.json_lines import read_lines
from fathom.search.record_json import from_json
from fathom.search.records import Outcome, TrialRecord
from tests.drill.search import Search
from tests.drill.watch import Watch

Results = dict[str, tuple[Shape, float | None]]
"""Trial -> its shape and its loss, nats per token."""

TRIAL_RUNS = """
    SELECT node.value, runs.status FROM runs
    JOIN experiments ON experiments.experiment_id = runs.experiment_id
    JOIN tags AS node ON node.run_uuid = runs.run_uuid AND node.key = 'fathom.node'
    WHERE experiments.name = ? AND runs.lifecycle_stage = 'active'
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One failure and its effects."""

    words: str
    status: int | None
    """The search's exit status; None when it had to be ended."""
    lost: list[str]
    twice: list[str]
    restarts: int
    """Restarts from a checkpoint."""
    anew: int
    """Restarts from the beginning."""
    repeated: int
    """Most steps that a trial repeated, as far as it had reported them before."""
    interval: int
    """Most steps between two checkpoints of a trial, or before its first or after its last."""
    mlflow_trials: int
    mlflow_running: int
    trials: int
    different: list[str]
    """Trials whose shape or loss is not that of the undisturbed run."""
    seconds: float

    @property
    def unharmed(self) -> bool:
        """True if everything is as the undisturbed run left it."""
        kept = self.status == 0 and not (self.lost or self.twice or self.different)
        mirrored = self.mlflow_trials == self.trials and not self.mlflow_running
        return kept and mirrored and self.repeated <= self.interval


def results(records: Iterable[TrialRecord]) -> Results:
    """The final table of a search."""
    return {record.spec.trial: (record.spec.shape, record.loss) for record in records}


def measure(
    words: str, search: Search, watch: Watch, status: int | None, expected: Results, seconds: float
) -> Row:
    """Measure the result of a run from its files and MLflow."""
    found = results(search.ended)
    ends = [from_json(line) for line in read_lines(search.folder.records)]
    finished = Counter(r.spec.trial for r in ends if r.outcome is Outcome.FINISHED)
    horizon = max((r.curve[-1].step for r in ends if r.curve), default=0)
    nodes = _mlflow(search.cluster.head.home / "mlflow" / "mlflow.db", search.study)
    anew = _begun_anew(search.folder.journal, Counter(each.trial for each in watch.restarts))
    repeated = [*(restart.repeated for restart in watch.restarts), *anew]
    trials = [node for node, _ in nodes if node.startswith("trial/")]
    return Row(
        words=words,
        status=status,
        lost=sorted(trial for trial in expected if trial not in finished),
        twice=sorted(trial for trial, times in finished.items() if times > 1),
        restarts=len(watch.restarts),
        anew=len(anew),
        repeated=max(repeated, default=0),
        interval=max((_longest(steps, horizon) for steps in watch.steps.values()), default=horizon),
        mlflow_trials=len(trials),
        mlflow_running=sum(status == "RUNNING" for _, status in nodes),
        trials=len(found),
        different=sorted(
            trial for trial in expected | found if found.get(trial) != expected.get(trial)
        ),
        seconds=seconds,
    )


def markdown(rows: Iterable[Row]) -> str:
    """The table of `benchmarks/RESULTS.md`."""
    lines = [
        "| what happened | exit | trials lost | run twice | restarts from a checkpoint + anew: "
        "steps repeated (interval) | MLflow runs / trials (left RUNNING) | final table | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        same = f"{len(row.different)} differ" if row.different else "equal"
        status = "ended by force" if row.status is None else row.status
        lines.append(
            f"| {row.words} | {status} | {len(row.lost)} | {len(row.twice)} | {row.restarts} + "
            f"{row.anew}: {row.repeated} ({row.interval}) | {row.mlflow_trials} / {row.trials} "
            f"({row.mlflow_running}) | {same} | {row.seconds:.0f} |"
        )
    return "\n".join(lines)


def _begun_anew(journal: Path, from_checkpoint: Counter[str]) -> list[int]:
    """Returns the reported steps of trials that began again without reading a checkpoint.

    A trial builds its model once per attempt, so its set-up time identifies the attempt.
    """
    lives: defaultdict[str, dict[float, int]] = defaultdict(dict)
    reached: Counter[str] = Counter()
    for line in read_lines(journal):
        if line["event"] == "report":
            trial = line["trial"]
            lives[trial].setdefault(line["setup_seconds"], reached[trial])
            reached[trial] = max([reached[trial], *(point["step"] for point in line["points"])])
    anew = []
    for trial, begun in lives.items():
        again = sorted(list(begun.values())[1:], reverse=True)
        anew += again[: max(0, len(again) - from_checkpoint[trial])]
    return anew


def _longest(steps: list[int], horizon: int) -> int:
    """Most steps between neighbours, the start and the end among them."""
    places = [0, *steps, horizon]
    return max(later - sooner for sooner, later in pairwise(places))


def _mlflow(store: Path, study: str) -> list[tuple[str, str]]:
    """Node and status of every run of a study, straight from the server's file."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        rows: list[tuple[str, str]] = connection.execute(TRIAL_RUNS, (study,)).fetchall()
    return rows
