"""`make` installs with uv or with pip; `make test` fails for a test, the linter or the types."""

import os
from pathlib import Path
from shutil import copy, which

import pytest

from tests.support.command_line import run
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(which("make") is None, reason="make is not installed")

LOGS = '#!/bin/sh\necho "$(basename "$0") $*" >> "$LOG"\n'
PYTHON = (
    LOGS
    + """\
case "$*" in
    "-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""
)


def installed(folder: Path, uv: str | None) -> list[str]:
    """What `make` calls to install torch and Fathom, with a stand-in for Python and one for uv."""
    programs, log = folder / "programs", folder / "log"
    programs.mkdir()
    stand_ins = {"any-python": PYTHON} | ({} if uv is None else {"uv": LOGS + uv})
    for name, text in stand_ins.items():
        program = programs / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        copy(ROOT / name, folder)
    environment = os.environ | {"PATH": f"{programs}:/usr/bin:/bin", "LOG": str(log)}
    environment.pop("UV_TORCH_BACKEND", None)
    asked = ["make", "PYTHONS=any-python", ".venv/installed"]
    made = run(*asked, cwd=folder, env=environment)
    assert made.returncode == 0, made.stderr
    return [line for line in log.read_text(encoding="utf-8").splitlines() if " install " in line]


UV = "uv pip install --quiet --python .venv/bin/python --constraint constraints.txt "
PIP = (
    "python -m pip install -qq --no-compile --disable-pip-version-check "
    "--constraint constraints.txt "
)
TORCH, FATHOM = "torch", "--editable .[dev]"
UV_TORCH = "--torch-backend auto torch"


NO_TORCH = 'case "$*" in *torch-backend*) exit 2 ;; esac\n'
"""A uv that does not find torch, as where only pip's settings name the index."""


@pytest.mark.parametrize(
    ("uv", "calls"),
    [
        (None, [PIP + TORCH, PIP + FATHOM]),
        ("", [UV + UV_TORCH, UV + FATHOM]),
        (NO_TORCH, [UV + UV_TORCH, PIP + TORCH, UV + FATHOM]),
    ],
    ids=["no uv", "uv", "uv without torch"],
)
def test_uv_installs_what_it_finds(tmp_path: Path, uv: str | None, calls: list[str]) -> None:
    if uv is None and which("uv", path="/usr/bin:/bin"):
        pytest.skip("uv is in the system's folder")

    assert installed(tmp_path, uv) == calls


@pytest.mark.parametrize("failing", ["ruff", "mypy", "pytest", None])
def test_make_test_fails_where_one_of_its_parts_fails(tmp_path: Path, failing: str | None) -> None:
    copy(ROOT / "Makefile", tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", ".venv/installed"):
        (tmp_path / name).touch()
    for name in ("ruff", "mypy", "pytest"):
        program = programs / name
        program.write_text(f"#!/bin/sh\necho {name} was here\nexit {int(name == failing)}\n")
        program.chmod(0o755)

    made = run("make", "test", cwd=tmp_path)

    assert (made.returncode != 0) == (failing is not None)
    assert "pytest was here" in made.stdout
    assert f"{failing or 'pytest'} was here" in made.stdout
