"""docs/clusters.md: what it tells a newcomer to type is there."""

import re
import sys
from pathlib import Path

from ray.scripts.scripts import cli

from tests.support.command_line import run
from tests.support.places import ROOT

BIN = Path(sys.executable).parent


PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")


COMMANDS = "\n".join(re.findall(r"^```sh[^\n]*\n(.*?)^```", PAGE, re.M | re.S))


def test_its_commands_are_shell_without_a_known_mistake() -> None:
    answer = run(BIN / "shellcheck", "--shell=bash", "-", input=COMMANDS)

    assert answer.returncode == 0, answer.stdout


def test_the_files_it_names_exist() -> None:
    linked = re.findall(r"\]\(\.\./([\w./-]+)\)", PAGE)
    typed = re.findall(r"\bdeploy/[\w/-]+\.\w+|\bdeploy/kubernetes/Dockerfile", PAGE)

    assert {"cluster.yaml", "deploy/gcp.yaml", "deploy/local.yaml", "deploy/slurm.sh"} <= {*linked}
    assert not [name for name in (*linked, *typed) if not (ROOT / name).exists()]


def test_its_options_of_ray_are_options() -> None:
    typed = re.findall(r"\bray (up|exec|attach)\b([^'`\n]*)", PAGE)

    for verb in ("up", "exec", "attach"):
        known = [option for each in cli.commands[verb].params for option in each.opts]
        words = {word for each, rest in typed if each == verb for word in rest.split()}
        assert {word for word in words if word.startswith("--")} <= {*known}, verb


def test_it_installs_the_kuberay_that_the_manifest_is_held_against() -> None:
    manifest = (ROOT / "deploy" / "kubernetes" / "search.yaml").read_text(encoding="utf-8")
    versions = re.findall(r"kuberay-operator --version (\S+)", COMMANDS + manifest)

    assert len(versions) == 2
    assert len(set(versions)) == 1
