"""A study of several horizons, which are searched one after another as separate searches are."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fathom
from fathom import run_horizons
from fathom.search import pipeline
from fathom.search.cluster.early_end import taken_seconds
from fathom.search.run_folder import RunFolder, RunFolderError, locked
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import dump, load
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.study.preflight import check_ready
from fathom.search.study.runs import StudyRun, runs_of
from fathom.search.training import layer_metrics
from tests.support.alone import Stop, alone, run_alone
from tests.support.whole_records import differences, whole_records

STUDY = """
study: three
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS}
budgets: [4k]
horizons: [1, 2, 4]
space: {depth: [1, 3], n_heads: 2}
trials: 4
confirm: {depths: 2, seeds: 1, rates: [1]}
stopping: {first_rung: 0.25, eta: 2}
train: {batch_size: 16, evaluations: 4}
resources: {gpus_per_trial: 0}
"""


@pytest.fixture(scope="module", autouse=True)
def _layers_at_every_evaluation() -> Iterator[None]:
    """So short a training would else measure its layers only at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_metrics, "DIAGNOSTICS_INTERVAL", 1)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "three.yaml"
    path.write_text(STUDY.replace("STEPS", str(path.with_name("steps"))))
    return path


@pytest.fixture(scope="module")
def separate(study: Path) -> list[RunFolder]:
    """The searches of the horizons, each by itself."""
    folders = []
    for config in horizon_studies(load(study)):
        own = study.with_name(f"{config.study}.yaml")
        own.write_text(dump(config))
        folders.append(run_alone(own, study.parent / "separate"))
    return folders


def assert_same(found: tuple[StudyRun, ...], separate: list[RunFolder]) -> None:
    for run, folder in zip(found, separate, strict=True):
        assert not (told := differences(whole_records(run.folder), whole_records(folder))), told


@pytest.fixture(scope="module")
def together(study: Path) -> tuple[StudyRun, ...]:
    """The searches of the horizons, one after another in one folder."""
    return runs_of(run_alone(study, study.parent / "runs").path)


@pytest.mark.drill
def test_each_horizon_has_the_records_of_a_search_of_that_horizon_alone(
    separate: list[RunFolder], together: tuple[StudyRun, ...]
) -> None:
    assert_same(together, separate)


def test_python_has_the_study_of_each_horizon(study: Path, together: tuple[StudyRun, ...]) -> None:
    with alone():
        found = run_horizons(study, runs=study.parent / "runs")

    assert list(found) == ["1", "2", "4"]
    assert [each.folder for each in found.values()] == [each.folder for each in together]
    assert fathom.load(study.parent / "runs" / "three", horizon=2).folder == together[1].folder
    with pytest.raises(ConfigError, match="three-1 has no `horizons`; call `run`"):
        run_horizons(found["1"].config, runs=study.parent / "runs")
    with pytest.raises(ConfigError, match="three has `horizons`; call `run_horizons`"):
        fathom.run(study, runs=study.parent / "runs")


@pytest.mark.drill
@pytest.mark.parametrize("look", [300, 600])
def test_horizons_that_were_interrupted_resume_to_the_same_records(
    study: Path, separate: list[RunFolder], tmp_path: Path, look: int
) -> None:
    stop = Stop(look)
    with pytest.raises(KeyboardInterrupt):
        run_alone(study, tmp_path, stop)

    assert_same(runs_of(run_alone(study, tmp_path).path), separate)


def test_a_search_whose_hours_are_over_goes_no_further_and_says_so(
    study: Path, tmp_path: Path
) -> None:
    ready = replace(check_ready(load(study), tmp_path), max_hours=0.0)
    with alone() as steps, locked(ready.folder):
        found = pipeline.run_study(ready, steps)

    assert [run.folder.path.name for run in found.runs] == ["three-1"]
    assert found.conclusions[0].unfinished
    assert [run.began for run in runs_of(ready.folder.path)] == [True, False, False]


def test_each_horizon_counts_the_hours_from_its_own_turn_on(study: Path, tmp_path: Path) -> None:
    ready = check_ready(load(study), tmp_path)
    began = time.monotonic() - 3600
    late = replace(ready.runs[0], began_monotonic=began)
    with alone() as steps, locked(ready.folder):
        pipeline.run_study(replace(ready, runs=(late, *ready.runs[1:])), steps)

    first, *others = (taken_seconds(run.folder) for run in ready.runs)
    assert first > 3600
    assert max(others) < 600, "an hour before the first is not of the others too"


def test_a_folder_of_another_study_or_of_other_horizons_is_refused(
    study: Path, tmp_path: Path
) -> None:
    ready = check_ready(load(study), tmp_path)
    ready.folder.path.mkdir()
    ready.folder.config.write_text(dump(load(study)))

    for change in ("horizons=[1, 2]", "horizons=null", "seed=1"):
        other = load(study, [change])
        with pytest.raises(RunFolderError, match="holds a study with another"):
            check_ready(other, tmp_path)
