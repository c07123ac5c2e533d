"""The kit for a machine without a network: `benchmarks/gpu/kit`."""

import os
import re
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.gpu.kit import __main__ as kit
from benchmarks.gpu.kit import rehearsal
from benchmarks.gpu.kit.packages import CARRIED, THERE, pins
from benchmarks.gpu.kit.unpack import LIST, KitError, unpack
from tests.support.command_line import run
from tests.support.places import ROOT

HERE = "{}.{}".format(*sys.version_info)
FILES = {"ray/core/raylet": b"\x7fELF" * 999, "ray/jars/ray.jar": b"Java", "ray/__init__.py": b""}
RECORDS = '''
import sys

class Recorder:
    """Hides the packages that the machine has not, and notes those of the kit in a file."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in HIDDEN and path is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if top in CARRIED and path is None:
            with open(NOTES, "a") as file:
                file.write(top + "\\n")
        return None

sys.meta_path.insert(0, Recorder())
'''


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a program and with a file that a search does not use."""
    made = tmp_path / "ray-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as content:
        for name, data in FILES.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (0o755 if name.endswith("raylet") else 0o644) << 16
            content.writestr(member, data)
    return made


@pytest.fixture
def parts(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parts of the wheel, for this Python, of 100 bytes each."""
    monkeypatch.setattr(kit, "PART_BYTES", 100)
    kit.made([wheel], tmp_path / "parts", python=HERE)
    return tmp_path / "parts"


def test_parts_are_the_same_bytes_again_and_give_the_files_that_a_search_uses(
    parts: Path, wheel: Path, tmp_path: Path
) -> None:
    before = {file.name: file.read_bytes() for file in parts.iterdir()}
    assert len(before) > 3, "several parts, their list and the script"
    assert {len(data) for name, data in before.items() if name < "kit.03" <= max(before)} >= {100}

    assert "has 1 packages" in unpack(parts, tmp_path / "site")
    unpacked = {str(f.relative_to(tmp_path / "site")) for f in (tmp_path / "site").rglob("*.*")}
    assert unpacked == {"ray/__init__.py", LIST}
    program = tmp_path / "site" / "ray" / "core" / "raylet"
    assert program.read_bytes() == FILES["ray/core/raylet"]
    assert os.access(program, os.X_OK)
    assert "is there already" in unpack(parts, tmp_path / "site")

    os.utime(wheel, (0, 0))
    kit.made([wheel], parts, python=HERE)
    assert {file.name: file.read_bytes() for file in parts.iterdir()} == before


def lose(parts: Path) -> None:
    (parts / "kit.02").unlink()


def damage(parts: Path) -> None:
    (parts / "kit.02").write_bytes(b"other")


def damage_the_list(parts: Path) -> None:
    (parts / LIST).write_text("{")


def lose_the_list(parts: Path) -> None:
    (parts / LIST).unlink()


def be_of_another_python(parts: Path) -> None:
    text = (parts / LIST).read_text()
    (parts / LIST).write_text(text.replace(f'"{HERE}"', '"3.2"'))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lose, r"kit\.02 is missing; carry it into the folder of the other parts"),
        (damage, r"kit\.02 is damaged: its SHA-256 is not that of parts.json; carry it"),
        (damage_the_list, "is damaged; carry the folder again"),
        (lose_the_list, f"has no {LIST}; make the kit first: python -m benchmarks.gpu.kit"),
        (be_of_another_python, rf"is for Python 3\.2 .* --python {re.escape(HERE)}"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_parts_are_refused_and_nothing_is_written(
    wrong: object, words: str, parts: Path, tmp_path: Path
) -> None:
    assert callable(wrong)
    wrong(parts)
    with pytest.raises(KitError, match=words):
        unpack(parts, tmp_path / "site")
    assert not list(tmp_path.glob("site*"))


def test_a_folder_with_something_else_is_not_replaced(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    with pytest.raises(KitError, match="must be empty or not there yet; name another folder"):
        unpack(parts, tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes"]


def test_parts_replace_no_folder_of_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("mine")
    monkeypatch.setattr("sys.argv", ["kit", "--to", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        kit.main()
    assert end.value.code == 2
    assert "--to must be a folder of parts or not there yet" in capsys.readouterr().err
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--python", "none/python"], "--python must be a Python with PyTorch, got none/python"),
        (
            ["--make", "none", "--base", "python2.1"],
            "--base must be a Python on the path, got pyth",
        ),
    ],
)
def test_a_rehearsal_without_its_python_is_refused(
    options: list[str], words: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("shutil.which", lambda name: None if "2.1" in name else name)
    monkeypatch.setattr("sys.argv", ["rehearsal", *options])
    with pytest.raises(SystemExit) as end:
        rehearsal.main()
    assert end.value.code == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(said) == 1
    assert words in said[0]


def test_what_fathom_asks_for_is_on_the_machine_or_in_the_kit_with_the_pins_of_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {Requirement(line).name for line in project["dependencies"]}
    of_no_search = {"mlflow", "pooch", "uvicorn", "h11"}  # its skinny form; downloads; pages
    assert asked - of_no_search <= {*CARRIED, *THERE}
    assert {*CARRIED} <= {*pins()}
    assert not {*CARRIED} & {*THERE}


@pytest.mark.drill
def test_a_search_runs_with_the_kit_and_imports_each_of_its_packages(tmp_path: Path) -> None:
    """Whatever else is installed here is hidden from every process of the search."""
    allowed, carried = with_needs({*THERE}) | {*CARRIED}, set[str]()
    hidden = set[str]()
    for top, distributions in packages_distributions().items():
        names = {named(name) for name in distributions}
        hidden |= {top} if not names & allowed else set()
        carried |= {top} if names & {*CARRIED} else set()
    notes, bundled = tmp_path / "notes", bundled_with_ray()
    known = f"HIDDEN, CARRIED, NOTES = {hidden - bundled!r}, {carried!r}, {str(notes)!r}\n"
    (tmp_path / "sitecustomize.py").write_text(known + RECORDS)

    command = (sys.executable, "-m", "fathom", "run", "configs/tiny.yaml", "--runs", tmp_path)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = run(*command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tiny" / "best.yaml").exists()
    assert (tmp_path / "mlflow.db").exists()
    tops = set(notes.read_text().splitlines())
    imported = {named(name) for top in tops for name in packages_distributions()[top]}
    assert {*CARRIED} - imported == set(), "packages of the kit that nothing imports"


def bundled_with_ray() -> set[str]:
    """Names of the packages that Ray's wheel has for itself."""
    spec = find_spec("ray")
    assert spec
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    return {path.stem for path in folder.rglob("thirdparty_files/*")} | {"fathom"}


def with_needs(names: set[str]) -> set[str]:
    """Packages with those that they need."""
    found, left = set[str](), {*names}
    while left:
        name = left.pop()
        found.add(name)
        for line in requires(name) or []:
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                left |= {named(need.name)} - found
    return found


def named(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
