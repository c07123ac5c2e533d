"""A search whose trainings spend seconds, from the file to its answer."""

import json
from pathlib import Path

import pytest

from fathom.search.study.hardware.machine import processor
from tests.support.command_line import fathom
from tests.support.contract import valid

STUDY = """
study: seconds
objective: {name: language, corpus: stdlib, context: 32, eval_tokens: 4k}
train: {batch_size: 4}
resources: {gpus_per_trial: 0}
"""
FIXED = """
budgets: [20k]
train_seconds: 2
trials: 3
confirm: {depths: 3, seeds: 1, rates: [1]}
"""
FREE = """
count: train_seconds
budgets: [4s]
space: {params: [4k, 16k], depth: [1, 3], head_dim: 8}
trials: 16
confirm: {depths: 3, seeds: 2}
"""


@pytest.mark.drill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [FIXED, FREE], ids=["fixed", "free"])
def test_a_search_by_seconds_says_what_its_trainings_took_and_times_no_step_again(
    size: str, tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY + size)
    done = fathom("run", "study.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "measuring training steps" in done.stderr

    (answer,) = valid(json.loads(done.stdout))["answers"]
    assert answer["question"]["count"] == ("train_seconds" if size is FREE else "total")
    assert answer["question"]["horizon"]["unit"] == "seconds"
    took = answer["evidence"]["seconds"]
    assert (took["asked"], took["devices"]) == (4 if size is FREE else 2, [processor()])
    assert took["trials"] == answer["evidence"]["trials"]["finished"] > 0

    again = fathom("run", "study.yaml", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "measuring" not in again.stderr
    assert valid(json.loads(again.stdout))["answers"] == [answer]
