"""A search of several horizons that is killed -9 ends as one that nothing disturbs."""

from pathlib import Path

import pytest

from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import dump, load
from fathom.search.study.planning.horizons import horizon_studies
from tests.support.alone import run_alone
from tests.support.running import SearchProcess
from tests.support.whole_records import differences, whole_records

pytestmark = [pytest.mark.siege, pytest.mark.timeout(1500)]

STUDY = """
study: killed
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS, seconds: 0.01}
budgets: [4k]
horizons: [1, 2]
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 2, seeds: 1, rates: [1]}
train: {batch_size: 8, evaluations: 5}
resources: {gpus_per_trial: 0, max_concurrent_trials: 2}
"""


def test_a_search_that_is_killed_in_its_second_horizon_goes_on_there(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(STUDY.replace("STEPS", str(tmp_path / "steps")))
    short, long = (
        RunFolder(tmp_path / "runs" / "killed" / config.study)
        for config in horizon_studies(load(study))
    )

    search = SearchProcess(tmp_path, "killed")
    search.wait_until(long.journal.exists)
    search.process.kill()
    search.end()
    ended = short.records.read_bytes()
    SearchProcess(tmp_path, "killed").finish()

    assert short.records.read_bytes() == ended
    for config, folder in zip(horizon_studies(load(study)), (short, long), strict=True):
        alone = tmp_path / f"{config.study}.yaml"
        alone.write_text(dump(config))
        calm = whole_records(run_alone(alone, tmp_path / "alone"))
        assert not (told := differences(whole_records(folder), calm)), told
    parent = RunFolder(tmp_path / "runs" / "killed")
    assert parent.best.exists()
    assert parent.report.exists()
