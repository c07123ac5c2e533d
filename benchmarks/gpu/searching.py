"""Stage `search`: a whole search through Ray, as a person starts it; again, killed and resumed."""

import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.gpu.finding import Cases, Setup, StageFinding, at_least, holds, left_out, measured
from fathom.search.records import Outcome, TrialRecord
from fathom.search.run_folder import RunFolder, read_attempts, read_records

ROOT = Path(__file__).parents[2]
RUNS = Path("build/gpu")
"""Folder of the searches; the next command continues one that was ended."""
STUDY = ROOT / "configs" / "tiny.yaml"
LARGE = {
    "budgets": ["1M", "3M"],
    "tokens": "8M",
    "space": {"depth": [1, 12], "ff_ratio": [1, 8], "n_heads": 2},
    "objective": {"name": "language", "context": 128, "eval_tokens": "32k"},
    "train": {"batch_size": 64, "evaluations": 4, "deterministic": True},
}
"""Keys of the study on a GPU."""
BUSY = 0.85
"""Least share of its time in which the places for trials train."""
SHARED = (0.125, 0.25, 0.5)
"""The GPUs of each trial that `gpus_per_trial: auto` may take where trials share one."""
KILLED_AFTER = 3
"""Trials that have ended when the search is killed."""
LONGEST = 3600.0
"""Seconds after which the search that is to be killed has ended of itself."""
CLOCK = ("generation_seconds", "compile_seconds", "flop_utilisation")
"""Metrics that tell of the machine."""


def cases(setup: Setup) -> Cases:
    """Yields a search to its answer, and the same one killed and resumed."""
    yield "answer", _answer
    yield "killed and resumed", _killed


def _answer(setup: Setup) -> Iterator[StageFinding]:
    if importlib.util.find_spec("ray") is None:
        yield left_out("the search ends with an answer", "Ray is not installed")
        return
    folder = prepared(setup, "whole")
    if folder.best.exists():  # of an earlier measurement
        folder = prepared(setup, "whole", anew=True)
    yield _ended(folder)
    if folder.best.exists():
        yield from _used(setup, folder)


def _ended(folder: RunFolder) -> StageFinding:
    """Runs the search of a folder to its end, from wherever it is."""
    done = subprocess.run(command(folder), capture_output=True, text=True, check=False)
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    answered = done.returncode == 0 and folder.best.exists()
    return holds("the search ends with an answer", answered, " ".join(last))


def _used(setup: Setup, folder: RunFolder) -> Iterator[StageFinding]:
    """The time of a search, and how much of the device it used."""
    records = read_records(folder.records)
    yield measured("seconds of the search", float(folder.seconds.read_text()))
    yield measured("trials", len(records))
    devices = {record.device for record in records}
    right = all((r.peak_memory_bytes is not None) == setup.on_gpu for r in records)
    yield holds("its trials ran on the device", right, f"they ran on {', '.join(devices)}")
    if setup.on_gpu:
        share = float(folder.auto_gpus.read_text())
        yield holds("trials shared the GPU unasked", share in SHARED, f"each had {share:g}")
    what, share = "share of its time in which it trains", training_share(records)
    yield at_least(what, share, BUSY) if setup.on_gpu else measured(what, share)


def training_share(records: Sequence[TrialRecord]) -> float:
    """The share of the time of as many places as trials ran at once, from the first start to the
    last end, in which steps were trained."""
    spans = [(record.started, record.ended or record.started) for record in records]
    places = max(sum(began <= at < ended for began, ended in spans) for at, _ in spans)
    held = places * (max(ended for _, ended in spans) - min(began for began, _ in spans))
    return sum(record.curve[-1].train_seconds for record in records if record.curve) / held


def _killed(setup: Setup) -> Iterator[StageFinding]:
    """The records of a search that is killed in the middle and resumed, against the whole one's."""
    if importlib.util.find_spec("ray") is None:
        yield left_out("the records are equal", "Ray is not installed")
        return
    whole, folder = prepared(setup, "whole"), prepared(setup, "killed", anew=True)
    yield _ended(whole)  # returns at once where it has ended
    with subprocess.Popen(
        command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as search:
        ended = _ends_of_trials(search, folder)
        search.kill()
    yield holds("it is killed in the middle", ended > 0 and not folder.best.exists())
    yield measured("trials that had ended", ended)
    began = time.monotonic()
    yield _ended(folder)
    yield measured("seconds from the resumption to the answer", time.monotonic() - began)
    expected, found = timeless(whole), timeless(folder)
    unequal = [trial for trial in expected.keys() | found.keys()
               if expected.get(trial) != found.get(trial)]  # fmt: skip
    yield holds("the records are equal", not unequal, f"not those of {', '.join(sorted(unequal))}")


def _ends_of_trials(search: "subprocess.Popen[bytes]", folder: RunFolder) -> int:
    """Waits until some trials of a search have ended; returns how many."""
    until, ended = time.monotonic() + LONGEST, 0
    while ended < KILLED_AFTER and search.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
        ended = len(read_attempts(folder.records)) if folder.records.exists() else 0
    return ended


def command(folder: RunFolder) -> list[str]:
    """The command that begins or resumes the search of a folder."""
    study, runs = folder.path.with_suffix(".yaml"), folder.path.parent
    return [sys.executable, "-m", "fathom", "run", str(study), "--runs", str(runs)]


def prepared(setup: Setup, name: str, *, anew: bool = False) -> RunFolder:
    """Writes the study of a search beside its folder, which may have begun."""
    runs = RUNS / setup.device.type / ("tiny" if setup.tiny else "full")
    folder = RunFolder(runs / name)
    if anew:
        shutil.rmtree(folder.path, ignore_errors=True)
    runs.mkdir(parents=True, exist_ok=True)
    keys: dict[str, Any] = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    keys |= {} if setup.tiny else LARGE
    # The ladder tries every depth: the order in which trials end changes none of them.
    keys |= {"study": name, "sampler": "ladder"}
    if not setup.on_gpu:
        keys |= {"resources": {"gpus_per_trial": 0}}
    folder.path.with_suffix(".yaml").write_text(yaml.safe_dump(keys), encoding="utf-8")
    return folder


def timeless(folder: RunFolder) -> dict[str, list[object]]:
    """Trial -> its shape, outcome and curve without the clock, of each of its attempts that went
    on to an end."""
    found: dict[str, list[object]] = {}
    for record in read_attempts(folder.records):
        if record.outcome is not Outcome.STOPPED:
            curve = [
                (
                    p.step,
                    p.loss,
                    p.train_loss,
                    {k: v for k, v in p.metrics.items() if k not in CLOCK},
                )
                for p in record.curve
            ]
            known = (record.spec.shape, record.spec.seed, record.outcome, curve)
            found.setdefault(record.spec.trial, []).append(known)
    return found
