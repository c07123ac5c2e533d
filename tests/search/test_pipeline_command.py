"""A search whose trials the user's own command trains, killed in between, through Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import yaml

from tests.support import trainer
from tests.support.places import ROOT

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


def search(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "fathom", "run", "study.yaml", "--runs", "runs"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def commands_of(folder: Path) -> list[int]:
    """Processes of the trainer whose folders are in this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if trainer.__file__ in words and str(folder) in words:
                found.append(int(entry.name))
    return found


def test_a_killed_search_leaves_no_command_and_goes_on(tmp_path: Path) -> None:
    write_study(tmp_path / "study.yaml")
    with search(tmp_path) as first:
        while not commands_of(tmp_path) and first.poll() is None:
            time.sleep(0.1)
        time.sleep(1.5)
        first.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while commands_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not commands_of(tmp_path)
    with search(tmp_path) as second:
        output, _ = second.communicate(timeout=300)
    assert second.returncode == 0, output
    assert "Traceback" not in output
    lines = (tmp_path / "runs/own/records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    ends = Counter(one["trial"] for one in records if one["outcome"] != "stopped")
    assert set(ends.values()) == {1}, "no trial ends twice"
    assert {one["outcome"] for one in records} <= {"finished", "stopped"}, output
    [best] = yaml.safe_load((tmp_path / "runs/own/best.yaml").read_text(encoding="utf-8"))["best"]
    assert best["lowest_depth"] in (3, 4, 5), "the formula's best depth is 4"
    assert f"--depth={best['shape']['depth']} --steps=1000 --folder=trained" in best["command"]
