"""A user's own code, named by its place: `my_package.my_module:name`.

Finding the code runs the user's module, which the user asks for by naming it. The working folder is
searched after what is installed; Ray's workers do the same where they see that folder.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fathom.objectives.errors import ObjectiveError

PLACE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
"""Pattern of a place: a module and a name in it."""
CHECKOUT = Path(__file__).resolve().parents[1]
"""The folder of Fathom's packages: a checkout, or the installed package."""
OURS = ("fathom", "models", "objectives", "search")
"""Names of Fathom's folders in a checkout."""
MACHINERY = (str(Path(__file__).parent), str(Path(importlib.__file__).parent))
"""Folders with the code that runs a user's code."""
NOT_OF_USERS = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that do not come from the user's code, but interrupt it from outside."""


class UserCodeError(ObjectiveError):
    """A user's code that can't be imported, or fails; the message is one line."""


@contextmanager
def user_code(rule: str, remedy: str = "fix it there") -> Iterator[None]:
    """Context in which a user's code runs: whatever it raises becomes an error of one line, except
    Ctrl-C and errors that are of one line already.

    Raises:
        UserCodeError: says `rule`, what was raised and where, and `remedy`.
    """
    try:
        yield
    except (ObjectiveError, *NOT_OF_USERS):
        raise
    except BaseException as error:
        place = place_of(error)
        at = f" at {place}" if place else ""
        raise UserCodeError(f"{rule}, got {one_line(error)}{at}; {remedy}") from error


def named(place: str, kind: str) -> tuple[ModuleType, Any]:
    """The module of a place, and the object with the place's name in it; None if the module lacks
    the name.

    `kind` is what the code is to be, for the message.

    Raises:
        UserCodeError: if the module can't be imported.
    """
    module_name, _, name = place.partition(":")
    folder = search_working_folder()
    try:
        module = importlib.import_module(module_name)
        return module, getattr(module, name, None)
    except NOT_OF_USERS:
        raise
    except BaseException as error:
        reason, where = one_line(error), place_of(error)
        if isinstance(error, SyntaxError):
            where = f"{error.filename or module_name}, line {error.lineno or 1}"
        if where:
            raise UserCodeError(
                f"{kind} {place} must be importable, but its import failed at {where}, got "
                f"{reason}; fix it there"
            ) from error
        remedy = "check its name, and run in the folder that has it"
        if module_name.endswith(".py"):
            remedy = f"write {module_name.removesuffix('.py')}:{name}, without `.py`"
        raise UserCodeError(
            f"the module of {kind} {place} must be importable from {folder}, got {reason}; {remedy}"
        ) from error


def one_line(error: BaseException) -> str:
    """The type and text of an error of a user's code, on one line."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's class may have a `__str__` that fails
        text = "an error without a text"
    return " ".join(f"{type(error).__name__}: {text}".split())


def own_modules() -> list[str]:
    """Files and folders of the modules that were imported from the working folder."""
    folder = Path.cwd().resolve()
    ours = OURS if folder == CHECKOUT else ()
    found = []
    for name, module in list(sys.modules.items()):
        if "." in name or name in ("__main__", *ours):  # `torch.classes` has a path of no strings
            continue
        # Not by their names: a user's module may raise for any that it lacks, and None has none.
        known = getattr(module, "__dict__", {})
        places = [*known.get("__path__", ())][:1] or [known.get("__file__")]
        if isinstance(places[0], str) and Path(places[0]).resolve().parent == folder:
            found.append(str(Path(places[0]).resolve()))
    return sorted(found)


def search_working_folder() -> str:
    """Makes modules of the working folder importable, and returns the folder.

    The folder comes after installed packages, which its files would hide otherwise, but before a
    checkout of Fathom, which has folders of common names.
    """
    folder, checkout = str(Path.cwd()), str(CHECKOUT)
    if folder not in sys.path:
        place = sys.path.index(checkout) if checkout in sys.path else len(sys.path)
        sys.path.insert(place, folder)
    return folder


def place_of(error: BaseException) -> str:
    """File and line at which a user's code failed; empty if its module was not found."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen")
        and str(Path(frame.filename).parent) not in MACHINERY
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
