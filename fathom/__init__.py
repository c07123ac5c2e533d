"""Fathom finds how deep a transformer should be, for a fixed number of parameters.

`from fathom import DepthSampler, ShapeSpace, Study, analyse, load, run, run_horizons` gives the
Python interface. Its modules take seconds to import, so they are loaded when one of these names is
first used.

In a checkout, `search`, `models`, `objectives` and `configs` in this folder are links to those
beside it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fathom.search.api import DepthSampler, ShapeSpace, Study, analyse, load, run, run_horizons

__all__ = ["DepthSampler", "ShapeSpace", "Study", "analyse", "load", "run", "run_horizons"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("fathom.search.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
