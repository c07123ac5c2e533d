"""A search whose trials the user's own command trains, killed in between, through Ray."""

import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
import yaml

from fathom.search.json_lines import read_lines
from fathom.search.record_json import from_json
from fathom.search.records import Outcome
from fathom.search.run_folder import read_records
from tests.support import trainer
from tests.support.running import SearchProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.drill

KEYS = ("depth", "steps", "folder", "resume", "seed", "learning_rate", "width")


def write_study(path: Path) -> None:
    places = {"width": "d_model"}
    words = [f"--{key}={{{places.get(key, key)}}}" for key in KEYS]
    study = {
        "study": "own",
        "objective": {"name": "external", "vocabulary": 256, "context": 32},
        "budgets": ["20k"],
        "tokens": "128k",
        "space": {"depth": [1, 8]},
        "trials": 4,
        "confirm": {"depths": 3, "seeds": 2, "rates": [1]},
        "train": {
            "command": [sys.executable, trainer.__file__, *words, "--pause=0.02"],
            "batch_size": 4,
        },
    }
    path.write_text(yaml.safe_dump(study), encoding="utf-8")


def commands_of(folder: Path) -> list[psutil.Process]:
    """Processes of the trainer whose folders are in this one."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if trainer.__file__ in words and any(str(folder) in word for word in words):
            found.append(process)
    return found


def test_a_killed_search_leaves_no_command_and_goes_on(tmp_path: Path) -> None:
    write_study(tmp_path / "study.yaml")
    first = SearchProcess(tmp_path, "own")
    first.wait_until(lambda: commands_of(tmp_path) and read_records(first.folder.records))
    first.process.kill()
    first.end()
    wait_until(lambda: not commands_of(tmp_path), "a command outlives its search")
    SearchProcess(tmp_path, "own").finish()

    records = [from_json(line) for line in read_lines(first.folder.records)]
    ends = Counter(record.spec.trial for record in records if record.outcome is not Outcome.STOPPED)
    assert set(ends.values()) == {1}, "no trial ends twice"
    assert {record.outcome for record in records} <= {Outcome.FINISHED, Outcome.STOPPED}
    [best] = yaml.safe_load((first.folder.path / "best.yaml").read_text(encoding="utf-8"))["best"]
    assert best["lowest_depth"] in (3, 4, 5), "the formula's best depth is 4"
    assert f"--depth={best['shape']['depth']} --steps=1000 --folder=trained" in best["command"]
