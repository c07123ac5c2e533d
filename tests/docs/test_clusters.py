"""docs/clusters.md: what it tells a newcomer to type is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def commands(page: str) -> str:
    return "\n".join(re.findall(r"^```sh[^\n]*\n(.*?)^```", page, re.M | re.S))


def test_its_commands_are_shell_without_a_known_mistake(commands: str) -> None:
    checked = [str(BIN / "shellcheck"), "--shell=bash", "-"]
    answer = subprocess.run(checked, input=commands, capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stdout


def test_the_files_it_names_exist(page: str) -> None:
    linked = re.findall(r"\]\(\.\./([\w./-]+)\)", page)
    typed = re.findall(r"\bdeploy/[\w/-]+\.\w+|\bdeploy/kubernetes/Dockerfile", page)

    assert {"cluster.yaml", "deploy/gcp.yaml", "deploy/local.yaml", "deploy/slurm.sh"} <= {*linked}
    assert not [name for name in (*linked, *typed) if not (ROOT / name).exists()]


def test_its_options_of_ray_are_options(page: str) -> None:
    typed = re.findall(r"\bray (up|exec|attach)\b([^'`\n]*)", page)

    for verb in ("up", "exec", "attach"):
        asked = [BIN / "ray", verb, "--help"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        known = re.findall(r"--[a-z-]+", answer.stdout)
        words = {word for each, rest in typed if each == verb for word in rest.split()}
        assert {word for word in words if word.startswith("--")} <= {*known}, verb


def test_it_installs_the_kuberay_that_the_manifest_is_held_against(commands: str) -> None:
    manifest = (ROOT / "deploy" / "kubernetes" / "search.yaml").read_text(encoding="utf-8")
    versions = re.findall(r"kuberay-operator --version (\S+)", commands + manifest)

    assert len(versions) == 2
    assert len(set(versions)) == 1
