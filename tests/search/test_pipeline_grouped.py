"""A search of models in groups, from its study file to its answer, over an interrupt."""

from pathlib import Path

import pytest
import yaml

from fathom.search.conclusion.conclude import conclude_run
from fathom.search.report.pages.page import page
from fathom.search.scheduling.journal import read_run
from fathom.search.study.file.study_file import load
from tests.support.alone import Stop, run_alone
from tests.support.reporting import visible
from tests.support.whole_records import differences, whole_records

STUDY = """
study: grouped
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS}
budgets: [4k]
tokens: 600
space: {depth: [1, 4], n_heads: 2}
trials: 4
confirm: {depths: 2, seeds: 1, rates: [1]}
stopping: {first_rung: 0.25, eta: 2}
model: {groups: 2}
train: {batch_size: 4, evaluations: 4, diagnostics: true, optimizer: muon}
resources: {gpus_per_trial: 0}
"""


@pytest.mark.drill
def test_a_search_in_groups_resumes_to_the_same_records_and_says_so(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(STUDY.replace("STEPS", str(tmp_path / "steps")))
    stop = Stop(10**9)
    calm = run_alone(study, tmp_path / "calm", stop)
    with pytest.raises(KeyboardInterrupt):
        run_alone(study, tmp_path / "cut", Stop(stop.looks // 2))
    folder = run_alone(study, tmp_path / "cut")

    records = whole_records(folder)
    assert not differences(records, whole_records(calm))
    assert {record.spec.shape.groups for record in records.values()} == {2}
    (best,) = yaml.safe_load(folder.best.read_text())["best"]
    assert best["shape"]["groups"] == 2
    config = load(study)
    shown = visible(page(conclude_run(folder, config, read_run(folder, config)), ()))
    assert f"d_model {best['shape']['d_model']} in 2 groups" in shown
