"""Credentials of the environment reach workers of this machine only if the study names them."""

import os

import pytest

from fathom.search.cluster.session import ray_session
from fathom.search.cluster.session.secrets import SECRETS
from fathom.search.study.keys.groups import ResourcesConfig

KEY, TOKEN = "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_TOKEN"


@pytest.fixture
def inherited(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Secrets that processes of Ray inherit at its start, which starts none here."""
    for name in (KEY, TOKEN):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    seen = set[str]()
    monkeypatch.setattr(
        ray_session, "start_here", lambda _: seen.update(os.environ.keys() & set(SECRETS))
    )
    monkeypatch.setattr(ray_session, "_check_resources", lambda _: None)
    return seen


def test_ray_on_this_machine_starts_without_secrets(inherited: set[str]) -> None:
    ray_session.start_ray(ResourcesConfig(gpus_per_trial=0), "again")
    assert inherited == set()
    assert os.environ[KEY] == "s3cret", "this process keeps them"


def test_a_secret_that_the_study_names_reaches_its_workers(inherited: set[str]) -> None:
    ray_session.start_ray(ResourcesConfig(gpus_per_trial=0, secrets=(KEY,)), "again")
    assert inherited == {KEY}
