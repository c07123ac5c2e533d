"""Secrets are not written: no password or token in any file, output or database."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.search.study.store_uri import TrackingError, check_form, to_keep, without_credentials
from tests.support.places import ROOT
from tests.support.ray_folder import own_ray_folder

SECRET = "s3cret-9f27"
STUDY = """
study: secret
objective: {name: language, corpus: stdlib, context: 32, eval_tokens: 4k}
budgets: [8k]
count: non_embedding
tokens: 4k
space: {depth: [1, 3], n_heads: 2}
trials: 2
confirm: {depths: 1, seeds: 1, rates: [1]}
train: {batch_size: 8, evaluations: 2}
"""
KEEPS_LOGS = """
from fathom.search import cli
from fathom.search.cluster.session import folder
folder._delete = lambda *_: None
cli.main()
"""


@pytest.fixture
def ray_folder() -> Iterator[Path]:
    """For Ray's logs."""
    with own_ray_folder() as folder:
        yield folder


@pytest.mark.drill
def test_no_password_or_token_reaches_a_file_a_database_or_the_output(
    tmp_path: Path, ray_folder: Path
) -> None:
    secrets = {
        "MLFLOW_TRACKING_PASSWORD": SECRET,
        "MLFLOW_TRACKING_USERNAME": "someone",
        "RAY_AUTH_TOKEN": SECRET,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    environment = os.environ | secrets | {"PYTHONPATH": str(ROOT)}
    down = f"tracking: {{uri: 'http://user:{SECRET}@127.0.0.1:9/'}}\n"
    output = ""
    for tracking in (down, ""):  # then into a database, of what the first has found
        output += run(tmp_path, tracking, environment)
        if tracking:
            kept = (tmp_path / "runs" / "secret" / "config.yaml").read_text()
            assert "uri: http://127.0.0.1:9/" in kept
    assert "does not answer" in output
    assert SECRET not in output
    read = written(tmp_path / "runs", ray_folder)
    names = {path.name for path in read}
    assert {"mlflow.db", "records.jsonl", "report.html", "raylet.out"} <= names
    assert [path for path in read if SECRET.encode() in path.read_bytes()] == []


def run(folder: Path, tracking: str, environment: dict[str, str]) -> str:
    """Runs a search, which leaves the logs of Ray; returns its output."""
    (folder / "study.yaml").write_text(STUDY + tracking)
    done = subprocess.run(
        [sys.executable, "-c", KEEPS_LOGS, "run", "study.yaml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def written(*tops: Path) -> list[Path]:
    files = [path for top in tops for path in top.rglob("*")]
    return [path for path in files if path.is_file()]


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("http://user:s3cret@host:5000/x", "http://host:5000/x"),
        ("https://t0ken-s3cret@host", "https://host"),
        ("postgresql://user:s3cret@host/db", "postgresql://user@host/db"),
        ("postgresql://user:s3@cret/@host/db", "postgresql://user@host/db"),
        ("postgresql://host/db?user=a&password=s3cret", "postgresql://host/db?user=a"),
        ("sqlite:///runs/mlflow.db", "sqlite:///runs/mlflow.db"),
    ],
)
def test_an_address_is_kept_and_shown_without_its_password(uri: str, kept: str) -> None:
    assert to_keep(uri) == kept
    assert not re.search("s3|cret", without_credentials(f"MLflow at {uri} is down"))


@pytest.mark.parametrize("part", ["a", "token", "://", "password=", "x&token=", "://a@"])
def test_long_words_are_searched_for_secrets_at_once(part: str) -> None:
    began = time.process_time()
    without_credentials(part * 60_000)
    to_keep(f"postgresql://host/{part * 60_000}")
    assert time.process_time() - began < 2


def test_a_refused_address_does_not_repeat_a_part_of_its_password() -> None:
    with pytest.raises(TrackingError) as refusal:
        check_form("http://user:s3/cret@host")
    assert not re.search("s3|cret", str(refusal.value))


def test_a_refused_study_does_not_repeat_a_password(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(STUDY + f"tracking: {{uri: ['http://user:{SECRET}@host']}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "search", "plan", str(study)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "`tracking.uri` must be" in done.stderr
    assert SECRET not in done.stderr
