"""A scheduler that is killed again and again, also in the middle of a line, comes to the records,
confirmations and answer of one that nothing disturbs."""

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fathom.search.run_folder import RunFolder
from fathom.search.study.keys.groups import Sampler
from tests.support.dry_run import Simulation
from tests.support.killed_appends import SearchKilled, killed_at
from tests.support.planted_search import PlantedSearch
from tests.support.whole_records import differences

pytestmark = pytest.mark.timeout(3600)

MOST_LINES = {Sampler.LADDER: 12, Sampler.CURVE: 120}
"""Most lines that a search appends between two kills: more where a plan takes longer, which is made
anew after a kill that takes its line."""


@pytest.mark.parametrize(
    ("sampler", "kills"),
    [
        (Sampler.LADDER, 20),
        pytest.param(Sampler.LADDER, 100, marks=pytest.mark.drill),
        pytest.param(Sampler.CURVE, 5, marks=pytest.mark.drill),
        pytest.param(Sampler.LADDER, 1000, marks=pytest.mark.siege),
        pytest.param(Sampler.CURVE, 60, marks=pytest.mark.siege),
    ],
)
def test_so_many_kills_lose_no_trial_repeat_none_and_change_no_answer(
    sampler: Sampler, tmp_path: Path, kills: int
) -> None:
    began, planted = time.process_time(), PlantedSearch(sampler)
    calm = planted.finish(tmp_path / "calm")
    done = searches = 0
    while done < kills:
        searches += 1
        folder = RunFolder(tmp_path / f"{searches}")
        done += killed_until_done(planted, folder, random.Random(searches))
        found = planted.ended(folder)
        assert differences(found.records, calm.records) == [], searches
        assert found == calm, searches
    seconds = time.process_time() - began
    print(f"{done} kills of {searches} searches: lost 0, twice 0, {seconds:.0f} s of CPU")


def killed_until_done(planted: PlantedSearch, folder: RunFolder, rng: random.Random) -> int:
    """Runs a search to its end, and kills it on its way; returns how often."""
    evaluations: dict[str, int] = {}
    most = MOST_LINES[Sampler(planted.config.sampler)]
    for kills in range(1000):
        known = whole_lines(folder.records)
        with suppress(SearchKilled), killed_at(rng.randint(1, most), rng):
            search = planted.open(folder)
            workers = Simulation(search, slots=rng.randint(1, 4), seed=rng.randrange(10**6))
            # A trial under way goes on from some checkpoint, or from its beginning.
            again = {trial: rng.randrange(evaluations.get(trial) or 1) for trial in search.live}
            evaluations |= again
            workers.evaluations = evaluations
            workers.run()
            if search.done:
                return kills
        assert whole_lines(folder.records).startswith(known)
    raise AssertionError("a search that is killed does not end")


def whole_lines(path: Path) -> bytes:
    """What a file holds up to the end of its last whole line."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]
