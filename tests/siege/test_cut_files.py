"""Records or a journal that were cut at any line, at any moment of a search: it resumes to the
records and the answer of one that nothing disturbed, or refuses them with file and line, and does
so once what it says is done."""

import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder
from fathom.search.study.keys.groups import Sampler
from tests.support.dry_run import Simulation
from tests.support.planted_search import PlantedSearch
from tests.support.whole_records import differences

pytestmark = pytest.mark.timeout(7200)


@dataclass(frozen=True)
class Cut:
    """A file of a search that was killed after some evaluations, cut to fewer lines."""

    events: int
    name: str
    lines: int


@pytest.mark.parametrize(
    ("sampler", "cuts"),
    [
        (Sampler.LADDER, 15),
        pytest.param(Sampler.CURVE, 10, marks=pytest.mark.siege),
        pytest.param(Sampler.LADDER, 1000, marks=pytest.mark.siege),
        pytest.param(Sampler.CURVE, 300, marks=pytest.mark.siege),
    ],
)
def test_a_search_whose_files_were_cut_comes_to_the_same_or_is_refused(
    sampler: Sampler, cuts: int, tmp_path: Path
) -> None:
    planted, rng = PlantedSearch(sampler), random.Random(33)
    calm, found = planted.finish(tmp_path / "calm"), Counter[str]()
    for number in range(cuts):
        path = tmp_path / f"{number}"
        cut = cut_at_random(planted, path, rng)
        try:
            after = planted.finish(path)
            found["the same"] += 1
        except DamagedFileError as error:
            keep_what_it_says(path, str(error))
            after = planted.finish(path)
            found["refused"] += 1
        assert differences(after.records, calm.records) == [], cut
        assert after == calm, cut
        shutil.rmtree(path)
    print(f"{cuts} cuts: {dict(found)}")
    assert found["refused"]
    assert found["the same"]


def keep_what_it_says(path: Path, refusal: str) -> None:
    """Keeps of a refused file the lines before the one that is named, as its remedy says."""
    refused = re.fullmatch(
        rf"({re.escape(str(path))}/[a-z/]+\.jsonl):(\d+): "
        r".+; restore the file, or (keep its first \d+ lines?|delete it): .+",
        refusal,
    )
    assert refused, refusal
    file, kept = Path(refused[1]), int(refused[2]) - 1
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) > kept
    file.write_bytes(b"".join(lines[:kept]))


def cut_at_random(planted: PlantedSearch, path: Path, rng: random.Random) -> Cut:
    """Runs a search up to some moment and cuts its records or its journal."""
    folder, events = RunFolder(path), rng.randint(20, 240)
    Simulation(planted.open(folder), slots=2).run(events=events)
    file = rng.choice((folder.records, folder.journal))
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    kept = lines[: rng.randint(0, len(lines))]
    if file.exists():
        file.write_bytes(b"".join(kept))
    return Cut(events, file.name, len(kept))
