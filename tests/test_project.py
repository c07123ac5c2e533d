"""The project's files: the pins fit the ranges, and the README's statements hold."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions, packages_distributions
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from typer.main import get_command

from fathom.search.cli import app
from tests.support.places import ROOT

PACKAGES = ("models", "objectives", "search")


@cache
def project() -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table: dict[str, Any] = settings["project"]
    return table


@cache
def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def requirements() -> list[Requirement]:
    # What is compared with lives in an environment of its own, since its pins exclude ours.
    extras = {**project()["optional-dependencies"], "rivals": []}
    everything = [
        *project()["dependencies"],
        *(line for extra in extras.values() for line in extra),
    ]
    required = map(Requirement, everything)
    return [requirement for requirement in required if requirement.name != project()["name"]]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_each_requirement_is_pinned_inside_its_range(requirement: Requirement) -> None:
    assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_name_no_build_that_only_one_index_has() -> None:
    assert not [name for name, version in pins().items() if version.local]


def test_pins_install_on_the_first_release_of_each_python() -> None:
    """Debian 12 has 3.11.2, on which a pin that asks for 3.11.5 is not found at all."""
    wanted = {
        package.name: SpecifierSet(package.metadata["Requires-Python"])
        for package in distributions()
        if pins().get(canonicalize_name(package.name)) == Version(package.version)
        and "Requires-Python" in package.metadata
    }

    assert len(wanted) > 100
    for python in ("3.11.0", "3.12.0", "3.13.0"):
        assert [name for name, range_ in wanted.items() if python not in range_] == []


def test_the_requirements_are_the_imported_packages() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    plain = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    from_ = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    foreign = {name.split(".")[0] for name in plain | from_} - {*sys.stdlib_module_names, "fathom"}

    required = {canonicalize_name(Requirement(line).name) for line in project()["dependencies"]}
    providers = packages_distributions()
    provided = {name: set(map(canonicalize_name, providers.get(name, ()))) for name in foreign}

    # pydantic's own core, which holds the type of its errors, comes with it.
    assert {name for name in foreign if not provided[name] & required} <= {"pydantic_core"}
    assert required <= set().union(*provided.values())


@pytest.fixture(scope="module")
def readme() -> str:
    path = ROOT / "README.md"
    if not path.exists():
        pytest.skip("there is no README.md yet")
    return path.read_text(encoding="utf-8")


def blocks(readme: str, *languages: str) -> list[str]:
    """The text of each block in one of these languages."""
    found = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", readme, re.M | re.S)
    return [text for language, text in found if language in languages]


@pytest.fixture(scope="module")
def commands(readme: str) -> str:
    return "\n".join(blocks(readme, "sh", "bash", "shell"))


def test_its_verbs_are_verbs(commands: str) -> None:
    verbs = set(re.findall(r"(?:\bfathom|-m search) ([a-z]+)", commands))
    assert verbs, "a README shows how to start"

    program: Any = get_command(app)
    assert verbs <= {*program.commands}


def test_its_make_targets_are_targets(commands: str) -> None:
    targets = set(re.findall(r"\bmake ([a-z]+)", commands))
    assert {"quickstart", "test"} <= targets

    for target in sorted(targets):
        asked = ["make", "--dry-run", target]
        answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr


def test_the_configs_it_names_exist(readme: str) -> None:
    named = set(re.findall(r"\bconfigs/[\w.-]+\.yaml", readme))

    assert {name for name in named if not (ROOT / name).exists()} <= {"configs/x.yaml"}


def test_the_places_its_links_lead_to_exist(readme: str) -> None:
    places = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", readme)

    assert not [place for place in places if not (ROOT / place).exists()]


def test_it_is_short(readme: str) -> None:
    assert len(re.sub("<!--.*?-->", "", readme).encode()) <= 11_000


def test_the_folders_of_its_map_exist(readme: str) -> None:
    [block] = [text for text in blocks(readme, "text") if "models/" in text]
    named = set(re.findall(r"^([\w-]+)/ ", block, re.M))
    inside = set(re.findall(r"\b(\w+)/", block)) - {*named, "studies"}
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()

    assert named == {path.split("/")[0] for path in tracked if "/" in path and path[0].isalpha()}
    assert inside == {path.parent.name for path in (ROOT / "search").glob("*/__init__.py")}
