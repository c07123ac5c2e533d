"""What is replaced inside Ray Tune: errors of trials, which no other user can have written."""

from pathlib import Path

import pytest
from ray import cloudpickle
from ray.exceptions import RayActorError
from ray.train._internal.storage import StorageContext
from ray.tune import TuneError
from ray.tune.experiment import Trial
from ray.tune.utils.mock_trainable import MOCK_TRAINABLE_NAME, register_mock_trainable

from fathom.search.cluster.tune_internals import error_of, errors_kept_in_memory
from tests.support.planted import PlantedPickle

TEXT, PICKLE = "error.txt", "error.pkl"
"""Tune's files of an error."""


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    session = str(tmp_path / "session")
    monkeypatch.setattr("ray.train._internal.storage._get_ray_train_session_dir", lambda: session)
    register_mock_trainable()
    storage = StorageContext(str(tmp_path), "tune", trial_dir_name="trial")
    return Trial(MOCK_TRAINABLE_NAME, stub=True, storage=storage)


def test_the_error_of_a_trial_is_the_one_that_tune_met(trial: Trial) -> None:
    error = RayActorError()
    with errors_kept_in_memory():
        trial.handle_error(error)
    assert error_of(trial) is error
    assert not trial.should_recover()


def test_no_file_of_an_error_is_written_where_others_can_link_it(
    trial: Trial, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    there = Path(str(trial.local_path))
    there.mkdir(parents=True)
    for name in (TEXT, PICKLE):
        (there / name).symlink_to(mine)
    with errors_kept_in_memory():
        trial.handle_error(RayActorError())
    assert mine.read_text() == "mine"


def test_a_planted_file_of_an_error_is_not_unpickled(trial: Trial, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    with errors_kept_in_memory():
        trial.handle_error(RayActorError())
    for folder in (trial.local_path, trial.storage and trial.storage.trial_fs_path):
        Path(str(folder)).mkdir(parents=True, exist_ok=True)
        (Path(str(folder)) / PICKLE).write_bytes(cloudpickle.dumps(PlantedPickle(proof)))
    assert isinstance(error_of(trial), RayActorError)
    assert trial.get_pickled_error() is None
    assert not proof.exists()


def test_a_trial_without_an_error_that_tune_handled_has_an_unknown_one(trial: Trial) -> None:
    assert isinstance(error_of(trial), TuneError)
