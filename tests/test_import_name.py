"""Fathom adds one name to Python, `fathom`: a checkout, a wheel and a worker find it by that name
alone."""

import os
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import fathom
from tests.support.command_line import Done, run
from tests.support.places import ROOT

COMMON_NAMES = ("models", "objectives", "search")
"""Folders of the checkout. Many programs have packages of these names."""
INSTALLED = ("random", "platform", "pydantic", "optuna", "psutil")
"""Modules that a search, its workers or its helpers import."""
RAISES = 'raise ImportError(f"a search has imported {__name__} of the folder that it started in")\n'
SMALL = ["budgets=[8k]", "tokens=4k", "trials=3", "confirm.seeds=1"]


def python(*arguments: str | Path, cwd: Path, path: Path | None = ROOT) -> Done:
    """A run of Python in another folder; `path` is the one folder that it finds Fathom in."""
    known = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    return run(sys.executable, *arguments, cwd=cwd, env=known)


@pytest.fixture
def occupied(tmp_path: Path) -> Path:
    """A folder with modules of common names, each of which raises when it is imported."""
    for name in INSTALLED:
        (tmp_path / f"{name}.py").write_text(RAISES)
    for name in COMMON_NAMES:
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(RAISES)
    return tmp_path


@pytest.mark.drill
def test_an_editor_finds_the_names_of_the_package() -> None:
    assert {*fathom.__all__} <= {*dir(fathom)}


@pytest.mark.drill
def test_a_search_imports_nothing_of_the_folder_that_it_starts_in(occupied: Path) -> None:
    changes = [word for change in SMALL for word in ("--set", change)]
    study = ROOT / "configs" / "tiny.yaml"
    done = python("-P", "-m", "fathom", "run", study, *changes, cwd=occupied)

    assert done.returncode == 0, done.stderr
    assert "ImportError" not in done.stdout + done.stderr
    best = yaml.safe_load((occupied / "runs" / "tiny" / "best.yaml").read_text(encoding="utf-8"))
    assert best


def test_a_folder_with_packages_of_the_same_names_does_raise(occupied: Path) -> None:
    for name in COMMON_NAMES:
        assert "ImportError" in python("-c", f"import {name}", cwd=occupied).stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without an index."""
    folder = tmp_path_factory.mktemp("wheel")
    built = python(
        "-m", "hatchling", "build", "--target", "wheel", "-d", folder, cwd=ROOT, path=None
    )
    assert built.returncode == 0, f"{built.stderr}\n`make test` installs hatchling"
    [path] = folder.glob("*.whl")
    return path


def test_the_wheel_adds_one_name_and_has_every_file_of_the_packages(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    tracked = run("git", "ls-files", *COMMON_NAMES, "configs", cwd=ROOT).stdout.split()

    assert {name for name in tops if not name.endswith(".dist-info")} == {"fathom"}
    assert tracked
    assert {f"fathom/{name}" for name in tracked} <= {*names}


@pytest.mark.drill
def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    asked = ("-m", "hatchling", "build")
    python(*asked, "--target", "sdist", "-d", tmp_path, cwd=ROOT, path=None)
    [archive] = tmp_path.glob("*.tar.gz")
    python("-m", "tarfile", "--extract", archive, tmp_path, cwd=tmp_path)
    inside = tmp_path / archive.name.removesuffix(".tar.gz")
    again = python(*asked, "--target", "wheel", "-d", tmp_path, cwd=inside, path=None)

    assert again.returncode == 0, again.stderr
    [second] = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(second).namelist() == zipfile.ZipFile(wheel).namelist()


def test_the_smaller_distribution_has_the_same_files(wheel: Path, tmp_path: Path) -> None:
    built = python(
        *("-m", "hatchling", "build", "--target", "wheel", "-d", tmp_path),
        cwd=ROOT / "deploy" / "core", path=None,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    [core] = tmp_path.glob("fathom_depth_core-*.whl")

    def files(path: Path) -> set[str]:
        return {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}

    assert files(core) == files(wheel)


def test_an_installed_wheel_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    place = tmp_path / "place"
    options = ("--quiet", "--no-deps", "--no-index", "--target", place)
    installed = python("-m", "pip", "install", *options, wheel, cwd=empty, path=None)
    assert installed.returncode == 0, installed.stderr

    file = python("-c", "import fathom; print(fathom.__file__)", cwd=empty, path=place)
    assert Path(file.stdout.strip()) == place / "fathom" / "__init__.py"
    help_ = python("-m", "fathom", "--help", cwd=empty, path=place)
    assert help_.returncode == 0, help_.stderr
    assert "run" in help_.stdout
    assert not [*place.glob("search*"), *place.glob("models*"), *place.glob("objectives*")]
