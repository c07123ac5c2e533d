"""The pipeline: a study file goes in, the optimal depth of every budget comes out.

In Python, `from search import Study, load, run`; what these import takes seconds, and a verb that
answers at once does without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from search.study import Study, load, run

__all__ = ["Study", "load", "run"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("search.study"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
