"""Connects this process to Ray: without Ray's handler of SIGTERM, and with this process's search
path for workers."""

import logging
import signal
import threading
from typing import Any

import ray

from fathom.search.cluster.ray_internals import SamePath

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def connect(**settings: Any) -> None:
    """Starts or joins Ray, and keeps this process's handler of SIGTERM: Ray's handler aborts with a
    dump."""
    before = signal.getsignal(signal.SIGTERM)
    environment = settings.get("runtime_env", {}).get("env_vars", {})
    path = SamePath(last=environment.get("PYTHONPATH", ""))
    try:
        ray.init(**QUIET, **settings, job_config=path)
    except SystemExit:  # a SIGTERM meanwhile
        raise KeyboardInterrupt from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def last_line(error: BaseException) -> str:
    """Returns the last line of an error's text, which in a traceback says what happened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
