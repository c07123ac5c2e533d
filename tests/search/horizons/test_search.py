"""A study of several horizons: what its trunks save, and that they change no record."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fathom import run_horizons
from fathom.search.horizons.folders import HorizonFolder
from fathom.search.horizons.search import check_horizons_ready, search_horizons
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder, RunFolderError, locked, read_records
from fathom.search.study.file.errors import ConfigError, PlanError
from fathom.search.study.keys.config import dump, load
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.study.preflight import check_ready
from fathom.search.training import layer_metrics
from tests.support.alone import Stop, alone, run_alone, run_horizons_alone
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


def records(folder: RunFolder) -> dict[str, TrialRecord]:
    """Every attempt of a search, without the clock and without what it took over."""
    whole = whole_records(folder)
    return {name: replace(record, taken_over=0) for name, record in whole.items()}


def assert_same(found: list[HorizonFolder], separate: list[RunFolder]) -> None:
    for horizon, folder in zip(found, separate, strict=True):
        assert not (told := differences(records(horizon.folder), records(folder))), told


def taken_over(folder: RunFolder) -> int:
    return sum(record.taken_over for record in read_records(folder.records))


@pytest.fixture(scope="module")
def together(study: Path) -> list[HorizonFolder]:
    """The searches of the horizons, one after another in one folder."""
    return run_horizons_alone(study, study.parent / "runs")


def test_trunks_change_no_record_and_save_tokens(
    study: Path, separate: list[RunFolder], together: list[HorizonFolder]
) -> None:
    assert_same(together, separate)
    short, middle, long = (taken_over(horizon.folder) for horizon in together)
    assert short == 0
    assert middle > 8_000
    assert long > 20_000
    parent = RunFolder(study.parent / "runs" / "three")
    assert not parent.trunks.exists(), "no horizon is left that needs one"
    assert [taken_over(folder) for folder in separate] == [0, 0, 0]


def test_python_has_the_study_of_each_horizon(study: Path, together: list[HorizonFolder]) -> None:
    with alone():
        found = run_horizons(study, runs=study.parent / "runs")

    assert list(found) == ["1", "2", "4"]
    assert [each.folder for each in found.values()] == [each.folder for each in together]
    with pytest.raises(ConfigError, match="which has no `horizons`"):
        run_horizons(found["1"].config, runs=study.parent / "runs")


@pytest.mark.drill
@pytest.mark.parametrize("look", [300, 600])
def test_horizons_that_were_interrupted_resume_to_the_same_records(
    study: Path, separate: list[RunFolder], tmp_path: Path, look: int
) -> None:
    stop = Stop(look)
    with pytest.raises(KeyboardInterrupt):
        run_horizons_alone(study, tmp_path, stop)

    found = run_horizons_alone(study, tmp_path)

    assert_same(found, separate)
    assert taken_over(found[-1].folder) > 20_000


@pytest.mark.drill
def test_horizons_whose_trunks_are_lost_train_from_the_beginning_to_the_same_records(
    study: Path, separate: list[RunFolder], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_horizons_alone(study, tmp_path, Stop(500))
    for trunk in RunFolder(tmp_path / "three").trunks.glob("*.pt"):
        trunk.unlink()

    assert_same(run_horizons_alone(study, tmp_path), separate)


def test_a_search_whose_hours_are_over_goes_no_further_and_says_so(
    study: Path, tmp_path: Path
) -> None:
    ready = check_horizons_ready(load(study), tmp_path, trust=False)
    with alone() as steps, locked(ready.folder):
        found = list(search_horizons(ready, steps, max_hours=0.0))

    assert [result.folder.path.name for result in found] == ["three-1"]
    assert found[0].conclusion.unfinished
    assert [horizon.began for horizon in ready.horizons] == [True, False, False]


def test_a_folder_of_another_study_or_of_other_horizons_is_refused(
    study: Path, tmp_path: Path
) -> None:
    ready = check_horizons_ready(load(study), tmp_path, trust=False)
    ready.folder.path.mkdir()
    ready.folder.config.write_text(dump(load(study)))

    for change in ("horizons=[1, 2]", "horizons=null", "seed=1"):
        other = load(study, [change])
        with pytest.raises(RunFolderError, match="holds a study with another"):
            check_horizons_ready(other, tmp_path, trust=False)
    with pytest.raises(PlanError, match="`horizons` are searched by"):
        check_ready(load(study), tmp_path)
