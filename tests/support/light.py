"""The program in a process in which packages are absent, as with a smaller installation."""

import os
import sys
from collections.abc import Collection

from tests.support.command_line import Done, run
from tests.support.places import ROOT

CODE = """
import sys
from importlib import util

ABSENT, find_spec = {absent}, util.find_spec

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
util.find_spec = lambda name: None if name in ABSENT else find_spec(name)
from fathom.search.cli import main
main()
"""


def without(absent: Collection[str], *words: object) -> Done:
    """What the program says where these packages can't be imported."""
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    code = CODE.format(absent=tuple(absent))
    return run(sys.executable, "-c", code, *words, env=known, timeout=280)
