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
budgets: [20k]
train_seconds: 2
trials: 3
confirm: {depths: 3, seeds: 1, rates: [1]}
train: {batch_size: 4}
resources: {gpus_per_trial: 0}
"""


@pytest.mark.drill
@pytest.mark.timeout(600)
def test_a_search_by_seconds_says_what_its_trainings_took_and_times_no_step_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    done = fathom("run", "study.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "measuring training steps" in done.stderr

    (answer,) = valid(json.loads(done.stdout))["answers"]
    assert answer["question"]["horizon"]["unit"] == "seconds"
    took = answer["evidence"]["seconds"]
    assert (took["asked"], took["devices"]) == (2, [processor()])
    assert took["trials"] == answer["evidence"]["trials"]["finished"] > 0

    again = fathom("run", "study.yaml", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "measuring" not in again.stderr
    assert valid(json.loads(again.stdout))["answers"] == [answer]
