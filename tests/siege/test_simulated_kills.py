"""A scheduler that is killed again and again, also in the middle of a line, comes to the records of
one that nothing disturbs."""

import random
from pathlib import Path

import pytest

from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.whole_records import differences, whole_records

pytestmark = pytest.mark.timeout(3600)

CONFIG = study(budgets=(20_000,))
MOST_EVENTS = 60
"""Most evaluations between two kills."""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrialRecord]:
    """The records of a search that nothing disturbs."""
    search = scheduler(CONFIG, tmp_path_factory.mktemp("calm") / "run")
    Simulation(search).run()
    assert search.done
    return whole_records(search.folder)


@pytest.mark.parametrize(
    "kills",
    [
        5,
        pytest.param(100, marks=pytest.mark.drill),
        pytest.param(1000, marks=pytest.mark.siege),
    ],
)
def test_so_many_kills_lose_no_trial_and_repeat_none(
    calm: dict[str, TrialRecord], tmp_path: Path, kills: int
) -> None:
    done = searches = 0
    while done < kills:
        searches += 1
        folder = RunFolder(tmp_path / f"{searches}")
        done += killed_until_done(folder, random.Random(searches))
        assert differences(whole_records(folder), calm) == [], searches
    print(f"{done} kills of {searches} searches: lost 0, twice 0, records equal")


def killed_until_done(folder: RunFolder, rng: random.Random) -> int:
    """Runs a search to its end, and kills it on its way; returns how often."""
    evaluations: dict[str, int] = {}
    for kills in range(1000):
        search = scheduler(CONFIG, folder.path)
        workers = Simulation(search, slots=rng.randint(1, 4), seed=rng.randrange(10**6))
        # A trial under way goes on from some checkpoint, or from its beginning.
        again = {trial: rng.randrange(evaluations.get(trial) or 1) for trial in search.live}
        workers.evaluations = evaluations | again
        workers.run(events=rng.randint(1, MOST_EVENTS))
        if search.done:
            return kills
        evaluations = workers.evaluations
        if rng.random() < 0.5:
            tear(last_written(folder), rng)
    raise AssertionError("a search that is killed does not end")


def last_written(folder: RunFolder) -> Path:
    files = [path for path in (folder.records, folder.journal) if path.exists()]
    return max(files, key=lambda path: path.stat().st_mtime_ns)


def tear(path: Path, rng: random.Random) -> None:
    """Cuts the last line, as a kill or a power cut in the middle of its writing does."""
    content = path.read_bytes()
    begin = content.rfind(b"\n", 0, -1) + 1
    path.write_bytes(content[: rng.randrange(begin, len(content))])
