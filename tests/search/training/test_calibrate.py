"""Measuring how fast a device trains: `search/training/calibrate.py`."""

import time
from collections.abc import Iterator

import pytest
import torch

from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.training import calibrate, loop
from fathom.search.training.calibrate import measure_speeds

PAUSE = 0.25


@pytest.fixture
def _pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another program has the core for a while after every few steps."""
    monkeypatch.setattr(calibrate, "MEASURED_SECONDS", 0.1)
    advance = loop.advance

    def paused(*given: object, **named: object) -> None:
        advance(*given, **named)  # type: ignore[arg-type]
        time.sleep(PAUSE)

    monkeypatch.setattr(calibrate, "advance", paused)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_pauses")
def test_time_in_which_other_programs_have_a_core_is_not_the_trainings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibrate, "SIZES", {"cpu": ("10k",)})
    monkeypatch.setattr(calibrate, "keep_speeds", lambda *_: None)
    began = time.monotonic()
    (rate,) = measure_speeds(ResourcesConfig(gpus_per_trial=0)).values()
    paused = measure_speeds(ResourcesConfig(gpus_per_trial=0, cpus_per_trial=2))["10k"]
    assert time.monotonic() - began > 6 * PAUSE
    assert rate > 2 * paused, "of several threads none alone tells the time of a step"
