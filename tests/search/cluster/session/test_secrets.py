"""Credentials of the environment reach workers of this machine only if the study names them."""

import os

import pytest

from fathom.search.cluster.session import ray_session
from fathom.search.study.keys.groups import ResourcesConfig

KEY = "AWS_SECRET_ACCESS_KEY"
SECRETS = {
    *(KEY, "MLFLOW_TRACKING_TOKEN", "PGPASSWORD", "WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "MYSQL_PWD", "KAGGLE_KEY", "GITHUB_PAT", "hub_token"),
    *("AZURE_STORAGE_CONNECTION_STRING", "DB_PASS", "SENTRY_DSN"),
}
NEEDED = {"OLDPWD", "TOKENIZERS_PARALLELISM", "RAY_AUTH_TOKEN_PATH", "HTTPS_PROXY"}


@pytest.fixture
def inherited(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Secrets that processes of Ray inherit at its start, which starts none here."""
    for name in SECRETS | NEEDED:
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("SENTRY_DSN", "https://me:s3cret@host/1")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    seen = set[str]()
    monkeypatch.setattr(
        ray_session, "start_here", lambda _: seen.update(os.environ.keys() & (SECRETS | NEEDED))
    )
    monkeypatch.setattr(ray_session, "_check_resources", lambda _: None)
    return seen


def test_ray_on_this_machine_starts_without_secrets(inherited: set[str]) -> None:
    ray_session.start_ray(ResourcesConfig(gpus_per_trial=0), "again")
    assert inherited == NEEDED
    assert os.environ[KEY], "this process keeps them"


def test_a_secret_that_the_study_names_reaches_its_workers(inherited: set[str]) -> None:
    ray_session.start_ray(ResourcesConfig(gpus_per_trial=0, secrets=(KEY,)), "again")
    assert inherited & SECRETS == {KEY}
