"""A study of several horizons: what its trunks save, and that they change no record."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.horizons.folders import HorizonFolder
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.study.keys.config import dump, load
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.training import layer_metrics
from tests.support.alone import Stop, run_alone, run_horizons_alone
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


def test_trunks_change_no_record_and_save_tokens(
    study: Path, separate: list[RunFolder], tmp_path: Path
) -> None:
    found = run_horizons_alone(study, tmp_path)

    assert_same(found, separate)
    short, middle, long = (taken_over(horizon.folder) for horizon in found)
    assert short == 0
    assert middle > 8_000
    assert long > 20_000
    assert not RunFolder(tmp_path / "three").trunks.exists(), "no horizon is left that needs one"
    assert [taken_over(folder) for folder in separate] == [0, 0, 0]


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


def test_horizons_whose_trunks_are_lost_train_from_the_beginning_to_the_same_records(
    study: Path, separate: list[RunFolder], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_horizons_alone(study, tmp_path, Stop(500))
    for trunk in RunFolder(tmp_path / "three").trunks.glob("*.pt"):
        trunk.unlink()

    assert_same(run_horizons_alone(study, tmp_path), separate)
