"""Settings of all tests: one thread, no screen, no telemetry, and an environment of its own."""

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.browser import chromium

FOREIGN = ("AWS_", "FATHOM_", "MLFLOW_", "OPTUNA_", "RAY_")
"""Prefixes of variables that would let the developer's own settings into a test."""

SETTINGS = {
    # Not a folder: speeds that a test measures are not kept, and change no other test.
    "FATHOM_CACHE": "/dev/null/fathom",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MPLBACKEND": "Agg",
    # Small models on a shared machine: a second thread costs more than it brings.
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # By default 15: whatever else the machine does then comes before the trials of a test.
    "RAY_worker_niceness": "0",
}


def pytest_configure() -> None:
    """Before any test module, hence before the libraries that read these once."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            del os.environ[name]
    # Where it is noted which stores were made here; another for each process of pytest.
    os.environ.update(SETTINGS, XDG_STATE_HOME=tempfile.mkdtemp(prefix="fathom-tests-"))
    # What a shell starts in the background ignores Ctrl-C, and under nohup a hangup;
    # tests send both.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # How long an example takes says how busy the machine is.
    settings.register_profile(
        "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any-machine")


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Undo what a test, or a library under it, wrote into the environment: MLflow and Ray do."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def has_gpu() -> bool:
    # Here, because torch reads the number of threads once, and takes a second that few tests owe.
    import torch

    return torch.cuda.is_available()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not has_gpu():
        pytest.skip("needs a CUDA device")
    if item.get_closest_marker("browser") and chromium() is None:
        pytest.skip("needs Chromium on the PATH")
