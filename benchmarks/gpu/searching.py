"""Stage `search`: a small search through Ray, as a person starts it."""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.finding import Cases, Setup, StageFinding, holds, left_out, measured
from fathom.search.run_folder import RunFolder, read_records

STUDY = """
study: small
objective: {name: language, context: 64, eval_tokens: 4096}
budgets: [SIZE]
count: non_embedding
tokens: TOKENS
trials: 3
confirm: {seeds: 1, rates: [1], depths: 2}
train: {batch_size: 8, evaluations: 4}
resources: {gpus_per_trial: GPUS}
"""


def cases(setup: Setup) -> Cases:
    """Yields the search, or the reason why there is none."""
    yield "small", _search


def _search(setup: Setup) -> Iterator[StageFinding]:
    if importlib.util.find_spec("ray") is None:
        yield left_out("the search ends with an answer", "Ray is not installed")
        return
    size, tokens = ("10k", "4096") if setup.tiny else ("1M", "4M")
    text = STUDY.replace("SIZE", size).replace("TOKENS", tokens)
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "small.yaml"
        study.write_text(text.replace("GPUS", "0.5" if setup.on_gpu else "0"))
        command = [sys.executable, "-m", "fathom", "run", str(study), "--runs", folder]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        yield measured("seconds of the search", time.monotonic() - began)
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        yield holds("the search ends with an answer", done.returncode == 0, " ".join(last))
        if done.returncode == 0:
            records = read_records(RunFolder(Path(folder) / "small").records)
            devices = {record.device for record in records}
            right = all((r.peak_memory_bytes is not None) == setup.on_gpu for r in records)
            yield holds("its trials ran on the device", right, f"they ran on {', '.join(devices)}")
