"""The cluster file that `fathom doctor` reads, and its findings where it can't ask AWS."""

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fathom.search.cluster.doctor.cloud_file import ask_cloud, cloud_file
from fathom.search.cluster.doctor.facts import Severity
from tests.support.places import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of cluster.yaml, of a user who has no credentials."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    text = (ROOT / "cluster.yaml").read_text(encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def edit(folder: Path, old: str, new: str) -> None:
    file = folder / "cluster.yaml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_the_file_says_role_images_machines_and_their_number(folder: Path) -> None:
    asked = cloud_file()

    assert asked is not None
    assert (asked.file, asked.on_head, asked.region) == ("cluster.yaml", False, "us-east-1")
    assert (asked.profile, asked.machine, asked.spot, asked.workers) == (
        *("ray-autoscaler-v1", "g6.xlarge"),
        *(True, 8),
    )
    assert len(asked.images) == 2
    assert asked.worker_image == asked.images[1]
    assert all(image.startswith("/aws/service/") for image in asked.images)


def test_an_image_with_a_number_of_its_own_is_no_parameter(folder: Path) -> None:
    text = (folder / "cluster.yaml").read_text(encoding="utf-8")
    (driver,) = (line.strip() for line in text.splitlines() if "nvidia-driver" in line)
    edit(folder, driver, "ImageId: ami-0123456789abcdef0")

    asked = cloud_file()

    assert asked is not None
    assert asked.worker_image == ""
    assert len(asked.images) == 1


def test_a_head_has_a_file_of_its_own_which_comes_first(folder: Path) -> None:
    edit(folder, "region: us-east-1", "region: eu-west-1")
    (folder / "home" / "ray_bootstrap_config.yaml").write_bytes(
        (folder / "cluster.yaml").read_bytes()
    )
    edit(folder, "region: eu-west-1", "region: us-east-1")

    asked = cloud_file()

    assert asked is not None
    assert asked.on_head
    assert asked.region == "eu-west-1"


@pytest.mark.parametrize("text", ["provider: {type: gcp}", "provider: 3", "x: [", "[]", ""])
def test_a_file_of_another_cloud_or_of_none_is_not_asked_about(folder: Path, text: str) -> None:
    (folder / "cluster.yaml").write_text(text, encoding="utf-8")
    assert ask_cloud() == ()
    (folder / "cluster.yaml").unlink()
    assert ask_cloud() == ()


def test_without_boto3_or_credentials_one_line_says_what_was_not_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (without_credentials,) = ask_cloud()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (without_boto3,) = ask_cloud()

    for finding in (without_credentials, without_boto3):
        assert finding.level is Severity.OK, "a search on this machine needs neither"
        assert finding.message.startswith("role and quota for cluster.yaml not checked: ")
    assert without_credentials.remedy == "before `ray up`: `aws configure`"
    assert without_boto3.remedy == "before `ray up`: `pip install boto3`"


def test_a_cloud_that_is_silent_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("python", 120)

    monkeypatch.setattr(subprocess, "run", hang)
    (finding,) = ask_cloud()

    assert finding.level is Severity.WARNING
    assert finding.message.endswith("not checked: no answer in 120 s")
