"""`python -m benchmarks.gpu` where PyTorch, numpy, PyYAML, tokenizers and pydantic are alone, as on
a machine with a GPU and no network."""

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import STAGES
from tests.support.command_line import run

ROOT = Path(__file__).parents[2]
HIDES = '''
import sys

THERE = {
    "torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe",
    "fsspec", "filelock", "typing_extensions", "setuptools", "_distutils_hack",
    "packaging",
    "numpy", "yaml", "_yaml", "tokenizers",
    "pydantic", "pydantic_core", "annotated_types", "typing_inspection",
}


class Hiding:
    """A finder without the packages that such a machine lacks."""

    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        spec = self._finder.find_spec(name, path, target)
        place = "" if spec is None else str(spec.origin)
        installed = "site-packages" in place and "/setuptools/" not in place  # it has its own
        return None if installed and name.partition(".")[0] not in THERE else spec

    def __getattr__(self, name):
        return getattr(self._finder, name)


sys.meta_path[:] = map(Hiding, sys.meta_path)
'''
"""Module that Python imports at its start, in this process and in each that it starts."""


@pytest.mark.siege
def test_without_other_packages_every_stage_passes(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert {name.partition("/")[0] for name in found} == set(STAGES)
    assert "Ray is not installed" in found["search/answer"][0]["mark"]
    assert "sacrebleu is not installed" in found["steps/translation"][0]["mark"]


def findings(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Case -> its findings, where all pass in a process with few packages."""
    (folder / "sitecustomize.py").write_text(HIDES)
    out = folder / "gpu.json"
    options = f"--device cpu --tiny --minutes 60 --out {out}".split()
    there = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    done = run(sys.executable, "-m", "benchmarks.gpu", *options, cwd=ROOT, env=there)
    assert done.returncode == 0, done.stdout + done.stderr
    ((_, values),) = json.loads(out.read_text())["setups"].items()
    cases: dict[str, list[dict[str, str]]] = values["cases"]
    return cases
