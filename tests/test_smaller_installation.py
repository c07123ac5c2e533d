"""The distribution without the packages of a search, `deploy/core`: what it answers, and what it
says of the rest."""

import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fathom.search.cli import OF_A_SEARCH
from fathom.search.version import CORE, FULL
from tests.support.light import without
from tests.support.places import ROOT

SIZES = "depth,d_model,params_non_embedding\n6,512,18915328\n16,2048,805736448\n"


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return table


def required(folder: Path) -> dict[str, str]:
    """Requirement -> its range."""
    found = map(Requirement, project(folder)["dependencies"])
    return {canonicalize_name(each.name): str(each.specifier) for each in found}


def test_it_is_of_the_same_version_and_its_packages_are_in_the_same_ranges() -> None:
    core, full = project(ROOT / "deploy" / "core"), project(ROOT)
    assert (core["name"], full["name"]) == (CORE, FULL)
    for key in ("version", "requires-python", "license", "scripts"):
        assert core[key] == full[key]
    assert required(ROOT / "deploy" / "core").items() < required(ROOT).items()
    for extra, lines in core["optional-dependencies"].items():
        assert set(lines) <= {*full["dependencies"], *full["optional-dependencies"].get(extra, ())}


def test_the_packages_that_it_leaves_out_are_those_of_the_message() -> None:
    left = required(ROOT).keys() - required(ROOT / "deploy" / "core").keys()
    provided = {
        canonicalize_name(distribution)
        for name in OF_A_SEARCH
        for distribution in packages_distributions()[name]
    }
    assert left <= provided


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (["plan", "quickstart"], "20k"),
        (["predict", "--params", "1B"], "depth 40.2"),
        (["predict", "sizes.csv"], "too shallow"),
        (["schema", "--answer"], "StatedAnswer"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_that_read_and_answer_work_without_the_packages_of_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sizes.csv").write_text(SIZES)
    done = without(OF_A_SEARCH, *command)
    assert done.returncode == 0, done.stderr
    assert word in done.stdout


@pytest.mark.parametrize("verb", ["run", "check", "doctor"])
def test_a_command_of_a_search_says_in_one_line_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = without(OF_A_SEARCH, verb, "quickstart")
    [line] = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith("fathom: `")
    assert f"must be installed for this command, which {CORE} leaves out" in line
    assert line.endswith(f"`pip install {FULL}` brings all that a search takes")
