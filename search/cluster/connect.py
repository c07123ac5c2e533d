"""Connects this process to Ray, so that workers import what it imports and signals stay its own."""

import logging
import signal
import sys
import threading
from typing import Any

import ray
from ray.job_config import JobConfig

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


class _SamePath(JobConfig):
    """Gives workers the search path of this process, so that they import what it imports.

    Ray would have them look in the working folder first: before Fathom's own packages and, for what
    is imported late, before Python's. `PYTHONPATH` of their environment comes last, with what it
    names left out here.
    """

    def __init__(self, last: str = "") -> None:
        # A worker puts each in front of those before.
        places = [place for place in reversed(sys.path) if place not in ("", last)]
        super().__init__(_py_driver_sys_path=places)

    def _runtime_env_has_working_dir(self) -> bool:
        """True: Ray then adds no folder of its own to the path."""
        return True


def connect(**settings: Any) -> None:
    """Start or join Ray; SIGTERM stays with this process's handler, as Ray's aborts with a dump."""
    before = signal.getsignal(signal.SIGTERM)
    environment = settings.get("runtime_env", {}).get("env_vars", {})
    path = _SamePath(last=environment.get("PYTHONPATH", ""))
    try:
        ray.init(**QUIET, **settings, job_config=path)
    except SystemExit:  # a SIGTERM meanwhile
        raise KeyboardInterrupt from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def last_line(error: BaseException) -> str:
    """The last line of an error's text, which in a traceback says what happened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
