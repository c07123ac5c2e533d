"""Batched confirmation trials in a real search on a real Ray."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray

from fathom.objectives.contract import Batch, Objective
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.cluster.tune import run_trials
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.run_folder import RunFolder, read_lines, read_records
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.config import parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.shapes import feasible_shapes
from tests.support.in_process import search_in_process
from tests.support.toy import Successors

LADDER = """
study: together
objective: {name: language, context: 6}
budgets: [6k]
count: non_embedding
tokens: 4800
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 3, seeds: 2, rates: [0.5, 1]}
train: {batch_size: 4, evaluations: 5, learning_rate: 1e-3}
model: {parametrization: {base_width: 16, base_head_dim: 8}}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2, replicas: 3}
"""
CURVE = (
    LADDER.replace("sampler: ladder", "trials: 4")
    .replace("trials: 2,", "trials: 1,")
    .replace("[0.5, 1]", "[0.5, 1, 2]")
    + "stopping: {first_rung: 0.0625, eta: 4}\n"
)
"""On one worker, where nothing depends on who comes first; with two rungs."""
NOISE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(Successors):
    """The first batched trials that come so far lose their worker, the second ones lack memory."""

    notes: Path

    def batches(self, *, seeds: Sequence[int], step: int, batch_size: int) -> Batch:
        before = len(list(self.notes.iterdir()))
        if step == 150 and before < 2:
            (self.notes / str(before)).touch()
            if not before:
                os._exit(1)
            raise MemoryError("no more\nof it")
        return Successors.batches(self, seeds=seeds, step=step, batch_size=batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Successors):
    """An objective whose batched trials take seconds."""

    def batches(self, *, seeds: Sequence[int], step: int, batch_size: int) -> Batch:
        time.sleep(0.01)
        return Successors.batches(self, seeds=seeds, step=step, batch_size=batch_size)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    yield
    ray.shutdown()


def scheduler(path: Path, text: str) -> Scheduler:
    config = parse(text)
    folder = RunFolder(path)
    folder.create()
    spaces = {budget: feasible_shapes(config, budget, 8) for budget in expand_budgets(config)}
    return Scheduler(config, spaces, folder)


def searched(path: Path, text: str, objective: Objective | None = None) -> Scheduler:
    search = scheduler(path, text)
    run_trials(search, objective or Successors())
    assert search.done
    return search


def one_by_one(path: Path, text: str) -> Scheduler:
    search = scheduler(path, text.replace("replicas: 3", "replicas: 1"))
    search_in_process(search, Successors())
    return search


def assert_same(search: Scheduler, other: Scheduler) -> None:
    """Checks that both searches have the same trials and losses, and that each trial ended once."""
    ours, theirs = (by_choice(one) for one in (search, other))
    assert ours.keys() == theirs.keys()
    for choice, record in ours.items():
        assert record.outcome is theirs[choice].outcome
        losses = [point.loss for point in theirs[choice].curve]
        assert [point.loss for point in record.curve] == pytest.approx(losses, abs=NOISE)
    assert {record.outcome for record in confirmed(search)} == {Outcome.FINISHED}
    lines = Counter(line["trial"] for line in read_lines(search.folder.records))
    assert len(lines) == len(ours)
    assert {lines[record.spec.trial] for record in confirmed(search)} == {1}


def by_choice(search: Scheduler) -> dict[tuple[object, ...], TrialRecord]:
    records = read_records(search.folder.records)
    specs = [record.spec for record in records]
    choices = [(spec.stage, str(spec.shape), spec.seed, spec.rate_scale) for spec in specs]
    return dict(zip(choices, records, strict=True))


def confirmed(search: Scheduler) -> list[TrialRecord]:
    return [record for record in search.records if record.spec.stage is Stage.CONFIRM]


def test_batched_trials_that_lose_their_worker_are_resumed_one_by_one_to_the_same_records(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes").mkdir()
    search = searched(tmp_path / "batched", CURVE, Failing(notes=tmp_path / "notes"))
    assert_same(search, one_by_one(tmp_path / "alone", CURVE))

    ends = [record.reason.partition(", ")[2] for record in confirmed(search)]
    lost = [end for end in ends if end.startswith("alone, as its batched trials were split")]
    assert len(lost) == 4
    assert sum(end.endswith(": MemoryError: no more") for end in lost) == 2

    again = Counter(
        (line["trial"], line["rung"][0])
        for line in read_lines(search.folder.journal)
        if line["event"] == "report" and line["rung"] and "confirm" in line["trial"]
    )
    first, last = sorted({rung for _, rung in again})
    assert {number for (_, rung), number in again.items() if rung == first} == {1}
    assert sum(number == 2 for (_, rung), number in again.items() if rung == last) == 4


def test_a_ladder_that_was_killed_and_interrupted_has_the_records_of_one_by_one(
    tmp_path: Path,
) -> None:
    killed = scheduler(tmp_path / "batched", LADDER)

    def kill() -> None:
        if is_confirming(killed):
            raise ConnectionError("on purpose")

    with pytest.raises(ConnectionError):
        run_trials(killed, Successors(), kill)

    ended, interrupt = scheduler(tmp_path / "batched", LADDER), Interrupt()
    grown = set(ended.live)

    def press_ctrl_c() -> None:
        if not interrupt.requested and set(ended.live) - grown:
            os.kill(os.getpid(), signal.SIGINT)

    with interrupt.on_signals(ended.folder.ending, lambda message: None):
        run_trials(ended, Slow(), press_ctrl_c, interrupt)
    assert len(interrupt.saved & set(ended.live)) >= 3, "all batched trials"

    again = searched(tmp_path / "batched", LADDER)
    assert_same(again, one_by_one(tmp_path / "alone", LADDER))
    assert not list(again.folder.marker.parent.glob("*.pt")), "no checkpoint is left"


def is_confirming(search: Scheduler) -> bool:
    return any(record.spec.stage is Stage.CONFIRM for record in search.live.values())
