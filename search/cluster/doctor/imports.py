"""Imports the modules that a worker needs, in a process of its own, and prints the first failure.

`python -m fathom.search.cluster.doctor.imports MODULE...` prints file, line and error of the first
failure, and nothing if all can be imported.
"""

import importlib
import sys

from fathom.objectives.user_code import place_of


def trouble_of(module: str) -> str:
    """File, line and error if the import of a module fails; empty if it works."""
    try:
        importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 - a module may even exit
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        place = place_of(error)
        return reason if place.startswith(__file__) else f"{place}: {reason}"
    return ""


def main() -> None:
    """Prints the first failure."""
    print(next(filter(None, map(trouble_of, sys.argv[1:])), ""))


if __name__ == "__main__":
    main()
