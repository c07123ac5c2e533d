"""Training speed by the size of the model, and the file of measured speeds."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.shape import Shape
from fathom.search.records import TrialRecord
from fathom.search.study.timing.device_speed import (
    KnownSpeeds,
    Rate,
    Speed,
    binned,
    keep_speeds,
    known_speeds,
    memory_traffic,
    rates_by_device,
    start_seconds,
)
from tests.support.dry_run import Simulation, scheduler, study

SHAPE = Shape(depth=4, d_model=64, d_ff=256, n_heads=2, head_dim=32, vocab_size=256, context=128)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of speeds, on an idle machine."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "speed.json"


def rate_of(record: TrialRecord) -> Rate:
    flops = record.train_flops
    of_a_layer = flops / record.curve[-1].step / record.spec.shape.depth
    return of_a_layer, flops / record.train_seconds


def test_a_step_on_a_gpu_takes_its_launches_or_its_work_whichever_is_longer() -> None:
    shape = SHAPE
    speed = Speed(peak=1e14, layer_seconds=5e-4, bandwidth=1e12)
    flops = shape.train_flops_per_token

    work = 10**6 * flops / 1e14 + memory_traffic(shape, 10**6) / 1e12
    assert speed.step_seconds(shape, 10**6) == pytest.approx(work)
    assert speed.step_seconds(shape, 1) == pytest.approx(shape.depth * 5e-4)
    measured = replace(speed, measured=((flops / shape.depth, 1e9),))
    assert measured.step_seconds(shape, 1) == pytest.approx(flops / 1e9)


def test_a_busy_machine_replaces_no_better_speed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = os.cpu_count() or 1
    quiet, busy = (0.5 * cores, 0.0, 0.0), (3.0 * cores, 0.0, 0.0)
    monkeypatch.setattr(os, "getloadavg", lambda: quiet)
    keep_speeds("a core", {1e7: 2e9, 1e8: 5e9}, 10.0)
    monkeypatch.setattr(os, "getloadavg", lambda: busy)
    keep_speeds("another core", {1e7: 5e8}, 90.0)
    assert known_speeds("another core") == KnownSpeeds(((1e7, 5e8),), None), "no start is known"
    keep_speeds("a core", {1e7: 5e8, 1e8: 6e9, 1e9: 1e9}, 90.0)
    assert known_speeds("a core") == KnownSpeeds(((1e7, 2e9), (1e8, 6e9), (1e9, 1e9)), 10.0)
    keep_speeds("a core", {1e7: 5e8}, own=cores * 3)
    assert known_speeds("a core").rates[0] == (1e7, 5e8), "the load is of this search itself"
    keep_speeds("a core", {}, 9.0)
    assert known_speeds("a core").start_seconds == 9.0, "the shortest, though the machine is busy"
    monkeypatch.setattr(os, "getloadavg", lambda: quiet)
    keep_speeds("a core", {1e7: 4e8}, 11.0)
    assert known_speeds("a core").rates[0] == (1e7, 4e8), "a slower machine is one"
    assert cache.exists()


def test_trials_tell_the_speed_of_the_device_that_trained_them_alone(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run()
    devices = ("", "a core", "H200", "L4 + H200")
    records = [
        replace(record, device=device, peak_memory_bytes=7 if "H200" in device else None)
        for record, device in zip(search.records, devices, strict=False)
    ]

    rates = rates_by_device(records, 0)

    assert set(rates) == {("a core", False), ("H200", True)}
    assert rates["H200", True] == binned([rate_of(records[2])])


def test_a_measured_speed_corrects_the_estimate_there_and_beyond() -> None:
    small = Speed(peak=30e9, layer_seconds=1.5e-3)  # a fraction of the speed of large models
    assert small.flops_per_second(1e13) == pytest.approx(30e9, rel=0.01)
    assert small.flops_per_second(1e7) == pytest.approx(1e7 / (1.5e-3 + 1e7 / 30e9))
    estimate = Speed(peak=1e10)
    speed = replace(estimate, measured=((1e6, 1e9), (1e8, 1e10)))

    for size, rate in ((1e4, 1e9), (1e6, 1e9), (1e7, 10**9.5), (1e8, 1e10), (1e12, 1e10)):
        assert speed.flops_per_second(size) == pytest.approx(rate)


def test_measurements_are_kept_by_device_and_size_in_a_readable_file(cache: Path) -> None:
    keep_speeds("a core", {1e7: 2e9, 1e8: 5e9}, start_seconds=12.0)
    keep_speeds("a GPU", {1e9: 1e13})
    keep_speeds("a core", {1e8: 6e9})

    assert known_speeds("a core") == KnownSpeeds(((1e7, 2e9), (1e8, 6e9)), 12.0)
    assert known_speeds("a GPU") == KnownSpeeds(((1e9, 1e13),))
    assert known_speeds("another") == KnownSpeeds()
    assert json.loads(cache.read_text())["a core"] == {
        "flops_per_second": {"1e+07": 2e9, "1e+08": 6e9}, "start_seconds": 12.0
    }  # fmt: skip
    cache.unlink()
    os.mkfifo(cache)
    assert known_speeds("a core") == KnownSpeeds(), "a pipe is not waited for"


@pytest.mark.parametrize(
    "damage",
    ["", "[]", "{", "\0", '{"a core": 3}', '{"a core": {"flops_per_second": {"x": 1, "2": "y"}}}',
     '{"a core": {"flops_per_second": {"-1": 1, "2": 0, "3": null}, "start_seconds": "soon"}}'],
)  # fmt: skip
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(cache: Path, damage: str) -> None:
    cache.parent.mkdir()
    cache.write_text(damage)

    assert known_speeds("a core") == KnownSpeeds()
    keep_speeds("a core", {1e7: 2e9})
    assert known_speeds("a core").rates == ((1e7, 2e9),)


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FATHOM_CACHE", "/dev/null/there")
    keep_speeds("a core", {1e7: 2e9})
    monkeypatch.setenv("FATHOM_CACHE", "~nobody-of-this-name/x")
    keep_speeds("a core", {1e7: 2e9})

    assert known_speeds("a core") == KnownSpeeds()
    assert capsys.readouterr() == ("", "")


def test_speeds_near_a_half_power_of_ten_are_one_median() -> None:
    assert binned([(0.9e7, 1e9), (1e7, 3e9), (1.1e7, 4e9), (3e7, 8e9)]) == {1e7: 3e9, 10**7.5: 8e9}


def test_only_trials_of_this_run_tell_its_speed(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run()
    records = [
        replace(record, started=time, device="a core", curve=tuple(
            replace(point, time=time + 7.0 + place, train_seconds=1.0 + place)
            for place, point in enumerate(record.curve)))
        for time, record in enumerate(search.records)
    ]  # fmt: skip

    last, core = records[-1], ("a core", False)
    [known] = rates_by_device(records, last.started)[core].items()
    assert known == pytest.approx(rate_of(last), rel=0.8)
    assert known[1] == rate_of(last)[1]
    assert rates_by_device(records, last.started + 1) == {core: {}}
    assert start_seconds(records, last.started) == 6.0
    assert start_seconds(records, last.started + 1) is None
    # Before the clock was set back.
    later = [replace(last, started=time.time() + 86_400)]
    assert rates_by_device(later, last.started) == {core: {}}
    assert start_seconds(later, last.started) is None
