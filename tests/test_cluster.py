"""`cluster.yaml` against Ray's own checks, Amazon's own model of a request, and a real shell."""

import os
import re
import stat
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parent.parent
RAY = Path(sys.executable).with_name("ray")
START_LISTS = ("head_start_ray_commands", "worker_start_ray_commands")
TOKEN = "~/.ray/auth_token"
"""Where Ray looks for its token when no variable names another place."""


@cache
def text() -> str:
    return (ROOT / "cluster.yaml").read_text(encoding="utf-8")


@pytest.fixture
def cluster() -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(text())
    return settings


@pytest.fixture
def prepared(cluster: dict[str, Any]) -> dict[str, Any]:
    """The settings as `ray up` completes them before it turns to the provider."""
    settings: dict[str, Any] = prepare_config(cluster)
    validate_config(settings)
    return settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder on a node that has the files and the packages."""
    (tmp_path / "fathom").mkdir()
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "bin").symlink_to(RAY.parent)
    (tmp_path / ".bashrc").write_text("# a comment of the distribution\n", encoding="utf-8")
    return tmp_path


def run_on_node(command: str, home: Path) -> str:
    """Run a command as `ray up` does over SSH, in an interactive login shell; its output.

    An interactive shell without a terminal complains on standard error, which is left alone.
    """
    wrapped = f"source ~/.bashrc; export OMP_NUM_THREADS=1 && ({command})"
    answer = subprocess.run(
        ["bash", "--login", "-c", "-i", wrapped],
        env={"HOME": str(home), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def commands(settings: dict[str, Any]) -> list[str]:
    return [line for key, value in settings.items() if key.endswith("_commands") for line in value]


def test_ray_accepts_the_settings(prepared: dict[str, Any]) -> None:
    assert prepared["available_node_types"].keys() == {"head", "worker"}


def test_workers_are_spot_and_start_from_none_and_the_head_runs_no_trial(
    prepared: dict[str, Any],
) -> None:
    head, worker = (prepared["available_node_types"][name] for name in ("head", "worker"))

    assert prepared["head_node_type"] == "head"
    assert head["resources"] == {"CPU": 0}
    assert head["max_workers"] == 0
    assert worker["min_workers"] == 0
    assert worker["max_workers"] == prepared["max_workers"] > 0
    assert worker["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert 0 < prepared["idle_timeout_minutes"] <= 15


@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_amazon_has_every_field_of_a_node(cluster: dict[str, Any], node_type: str) -> None:
    service = botocore.session.get_session().get_service_model("ec2")
    model = service.operation_model("RunInstances")
    request = cluster["available_node_types"][node_type]["node_config"]

    report = ParamValidator().validate(request | {"MinCount": 1, "MaxCount": 1}, model.input_shape)

    assert not report.has_errors(), report.generate_report()


def test_ray_up_goes_as_far_as_amazon_asking_who_we_are(tmp_path: Path) -> None:
    quiet = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}

    answer = subprocess.run(
        [RAY, "up", "--yes", "--no-config-cache", "cluster.yaml"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **quiet},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "NoCredentialsError" in answer.stderr
    assert "ValidationError" not in answer.stderr


def test_a_user_edits_three_places() -> None:
    following = re.findall(r"# EDIT: .*\n *(\w+):", text())

    assert following == ["region", "max_workers", "InstanceType"]
    assert text().count("# EDIT") == 3


def test_what_is_synced_is_there_and_is_all_that_the_installation_needs(
    cluster: dict[str, Any],
) -> None:
    mounts = cluster["file_mounts"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert not [local for local in mounts.values() if not (ROOT / local).exists()]
    assert all(remote == f"~/fathom/{local}" for remote, local in mounts.items())
    assert set(mounts.values()) == {*packages, "configs", "pyproject.toml", "constraints.txt"}


def test_nothing_listens_beyond_loopback(cluster: dict[str, Any]) -> None:
    everything = "\n".join(commands(cluster))

    assert set(re.findall(r"--(?:dashboard-)?host[= ](\S+)", everything)) == {"127.0.0.1"}
    assert "0.0.0.0" not in everything


def test_every_command_is_a_sentence_of_the_shell(cluster: dict[str, Any]) -> None:
    for command in commands(cluster):
        checked = ["bash", "-n", "-c", command]
        answer = subprocess.run(checked, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("starts", START_LISTS)
def test_a_node_without_the_token_fails_before_ray_starts(
    cluster: dict[str, Any], starts: str
) -> None:
    assert cluster[starts][0] == f"test -s {TOKEN}"
    assert TOKEN in cluster["cluster_synced_files"]


def test_every_shell_of_a_node_has_token_mode_however_often_it_was_set_up(
    cluster: dict[str, Any], home: Path
) -> None:
    for _ in range(2):
        run_on_node(cluster["setup_commands"][0], home)

    assert run_on_node("echo $RAY_AUTH_MODE", home).strip() == "token"
    assert run_on_node("echo $PATH", home).startswith(f"{home}/venv/bin:")
    lines = (home / ".bashrc").read_text(encoding="utf-8").splitlines()
    assert lines == [". ~/fathom/env", "# a comment of the distribution"]


def test_the_head_makes_one_token_that_only_its_user_can_read(
    cluster: dict[str, Any], home: Path
) -> None:
    token = home / TOKEN.removeprefix("~/")
    make = cluster["head_setup_commands"][0]
    run_on_node(cluster["setup_commands"][0], home)

    run_on_node(make, home)
    first = token.read_text(encoding="utf-8")
    run_on_node(make, home)

    assert len(first) >= 32
    assert token.read_text(encoding="utf-8") == first
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
