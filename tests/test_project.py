"""The project's files: the pins fit the ranges, and the README's statements hold."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions, packages_distributions
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from typer.main import get_command

from fathom.search.cli import OF_A_SEARCH, app
from fathom.search.report.pages.card import CITATION
from tests.support.command_line import run
from tests.support.markdown import blocks_of
from tests.support.places import ROOT

PACKAGES = ("models", "objectives", "papers", "search")


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


def test_each_requirement_is_pinned_inside_its_range() -> None:
    outside = [r for r in requirements() if pins()[canonicalize_name(r.name)] not in r.specifier]

    assert not outside


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

    # pydantic's own core, which holds the type of its errors, comes with it. Extras bring
    # TensorBoard, and with it protobuf, and boto3. W&B's package is for who has a project of
    # W&B, transformers for who has configurations without a form here.
    others = {
        "pydantic_core",
        "tensorboard",
        "google",
        "wandb",
        "boto3",
        "botocore",
        "transformers",
    }
    assert {name for name in foreign if not provided[name] & required} <= others
    assert required <= set().union(*provided.values())


def test_what_the_smaller_distribution_leaves_out_is_named_and_no_more() -> None:
    core = tomllib.loads((ROOT / "deploy/core/pyproject.toml").read_text(encoding="utf-8"))
    kept = {canonicalize_name(Requirement(line).name) for line in core["project"]["dependencies"]}
    all_ = {canonicalize_name(Requirement(line).name) for line in project()["dependencies"]}
    assert kept < all_
    providers = packages_distributions()
    named = {canonicalize_name(name) for of in OF_A_SEARCH for name in providers.get(of, ())}
    assert not named & kept
    assert all_ - kept <= named


README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks_of(ROOT / "README.md")
COMMANDS = "\n".join(block.text for block in BLOCKS if block.language == "sh")


def test_its_verbs_are_verbs() -> None:
    verbs = set(re.findall(r"(?:\bfathom|-m search) ([a-z]+)", COMMANDS))
    assert verbs, "a README shows how to start"

    program: Any = get_command(app)
    assert verbs <= {*program.commands}


def test_its_make_targets_are_targets() -> None:
    targets = set(re.findall(r"\bmake ([a-z]+)", COMMANDS))
    assert {"quickstart", "test"} <= targets

    for target in sorted(targets):
        answer = run("make", "--dry-run", target, cwd=ROOT)
        assert answer.returncode == 0, answer.stderr


def test_the_configs_it_names_exist() -> None:
    named = set(re.findall(r"\bconfigs/[\w.-]+\.yaml", README))

    assert {name for name in named if not (ROOT / name).exists()} <= {"configs/x.yaml"}


def test_it_is_short() -> None:
    assert len(re.sub("<!--.*?-->", "", README).encode()) <= 9_000


def test_the_citation_has_the_version_and_the_words_of_the_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    for key in ("version", "license"):
        assert citation[key] == project()[key]
    assert set(citation["keywords"]) <= set(project()["keywords"])
    assert {"message", "title", "authors", "type"} <= set(citation)
    [author] = citation["authors"]
    shown = CITATION.format(version=citation["version"])
    assert f"title = {{{citation['title']}}}" in shown, "the card cites the same"
    assert f"author = {{{{{author['name']}}}}}" in shown
    assert f"license = {{{citation['license']}}}" in shown
