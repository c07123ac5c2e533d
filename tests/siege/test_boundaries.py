"""A search that is stopped, killed or cut from its power after any change that it makes to a file
resumes, and ends with the records of a search that nothing disturbed."""

import hashlib
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.search.json_lines import read_lines
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.training import layer_metrics
from tests.support.alone import Stop, run_alone
from tests.support.recorded_disk import Left, RecordedFolder
from tests.support.whole_records import differences, whole_records

pytestmark = pytest.mark.timeout(7200)

STUDY = """
study: siege
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS}
budgets: [4k]
tokens: 600
space: {depth: [1, 3], n_heads: 2}
trials: 4
confirm: {depths: 2, seeds: 1, rates: [1]}
stopping: {first_rung: 0.25, eta: 2}
train: {batch_size: 4, evaluations: 4, diagnostics: true}
resources: {gpus_per_trial: 0}
"""
SAMPLE = [pytest.param(12, marks=pytest.mark.drill), pytest.param(10**9, marks=pytest.mark.siege)]
"""Most places of each kind at which a search is disturbed."""
BOUNDARIES = ("begin", "rename", "write journal", "sync journal", "write records", "sync records")
"""Changes after which a sample disturbs it."""
CHECKPOINTS = 3
"""Places of a sample just after a trial has saved, before its report is written down: a record that
lacks then what the checkpoint holds, such as layer metrics, lacks it for good."""


@pytest.fixture(scope="module", autouse=True)
def _layers_at_every_evaluation() -> Iterator[None]:
    """So short a training would else measure its layers only at the end, after the last save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_metrics, "DIAGNOSTICS_INTERVAL", 1)
        yield


@dataclass(frozen=True)
class Calm:
    """A search that nothing disturbs."""

    study: Path
    disk: RecordedFolder
    records: dict[str, TrialRecord]
    looks: int
    """How often its trials looked for an interrupt."""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Calm:
    place = tmp_path_factory.mktemp("calm")
    study, runs, stop = place / "study.yaml", place / "runs", Stop(10**9)
    study.write_text(STUDY.replace("STEPS", str(place / "steps")))
    runs.mkdir()
    disk = RecordedFolder(runs)
    with disk.recording():
        folder = run_alone(study, runs, stop)
    disk.left(len(disk.changes), Left.ALL, place / "again")
    assert contents(place / "again") == contents(runs), "the recording is whole"
    return Calm(study, disk, whole_records(folder), stop.looks)


def contents(folder: Path) -> dict[str, bytes]:
    """Name -> content of each file under a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def some(count: int, most: int) -> list[int]:
    """At most so many of the first numbers, by a seed."""
    numbers = range(count)
    return sorted(random.Random(33).sample(numbers, min(most, count)))


@pytest.mark.parametrize("most", SAMPLE)
def test_a_search_stopped_at_any_step_resumes_to_the_same_records(
    calm: Calm, tmp_path: Path, most: int
) -> None:
    looks = some(calm.looks, most)
    for look in looks:
        runs = tmp_path / f"{look}"
        with pytest.raises(KeyboardInterrupt):
            run_alone(calm.study, runs, Stop(look + 1))
        assert differences(whole_records(run_alone(calm.study, runs)), calm.records) == [], look
        shutil.rmtree(runs)
    print(f"stops: {len(looks)}, all with equal records")


@pytest.mark.parametrize("most", SAMPLE)
@pytest.mark.parametrize("what", Left)
def test_a_search_killed_or_cut_after_any_change_resumes_to_the_same_records(
    calm: Calm, tmp_path: Path, what: Left, most: int
) -> None:
    times = 0
    for number, runs in states(calm.disk, what, tmp_path, most):
        times += 1
        folder = RunFolder(runs / "siege")
        before = ends(folder)
        words = f"{number}, after `{calm.disk.words[number - 1]}`"
        assert differences(whole_records(run_alone(calm.study, runs)), calm.records) == [], words
        assert ends(folder)[: len(before)] == before, words
    print(f"{what}: {times} states after {len(calm.disk.changes)} changes, all with equal records")


@pytest.mark.siege
@pytest.mark.parametrize("what", [Left.NAMES, Left.SYNCED, Left.SOME])
def test_a_power_cut_takes_no_record_but_the_one_that_is_being_written(
    calm: Calm, tmp_path: Path, what: Left
) -> None:
    for number in range(1, len(calm.disk.changes) + 1):
        known = []
        for kind in (Left.ALL, what):
            calm.disk.left(number, kind, tmp_path / kind)
            known.append(ends(RunFolder(tmp_path / kind / "siege")))
            shutil.rmtree(tmp_path / kind)
        lost = len(known[0]) - len(known[1])
        is_being_written = calm.disk.words[number - 1] == "write records.jsonl"
        assert lost <= is_being_written or calm.disk.words[number].startswith("sync"), number


@pytest.mark.siege
def test_a_clock_that_moves_an_hour_each_way_changes_no_record(
    calm: Calm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, moves = time.time, random.Random(33)
    monkeypatch.setattr("time.time", lambda: now() + moves.choice((-3600, 0, 3600)))
    found = run_alone(calm.study, tmp_path / "moved")
    assert differences(whole_records(found), calm.records) == []


def ends(folder: RunFolder) -> list[str]:
    """The trials that have ended, as the whole lines of a folder's records say."""
    return [line["trial"] for line in read_lines(folder.records)]


def states(disk: RecordedFolder, what: Left, place: Path, most: int) -> Iterator[tuple[int, Path]]:
    """Numbers of changes, and a folder with what is left after so many, each once."""
    seen = set[str]()
    whole = most > len(disk.changes)
    after = ["begin", *disk.words]
    numbers = [n for n, word in enumerate(after) if whole or word.startswith(BOUNDARIES)]
    saved = [n for n, word in enumerate(after) if word.startswith("rename") and ".pt" in word]
    chosen = {numbers[n] for n in some(len(numbers), most)}
    for number in sorted(chosen.union(saved[n] for n in some(len(saved), CHECKPOINTS))):
        runs = place / f"{number}"
        disk.left(number, what, runs)
        digest = hashlib.sha256(repr(contents(runs)).encode()).hexdigest()
        if digest not in seen:
            seen.add(digest)
            yield number, runs
        shutil.rmtree(runs)
