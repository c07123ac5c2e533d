"""Training speed by the size of the model: an estimate, and the speeds measured on this machine.

A layer takes some time whatever its size, so a small model trains at a fraction of the speed of a
large one. Measured speeds are kept in a file of the user's, by device and size.
"""

import json
import math
import os
import time
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Any

from fathom.models.shape import Shape
from fathom.objectives.files.download import cache_folder
from fathom.search.records import SEVERAL, TrialRecord
from fathom.search.run_folder import write_atomically

FILE = "speed.json"
"""File of measured speeds, in the user's cache folder."""
WIDTH_TRAFFIC, FF_TRAFFIC, VOCABULARY_TRAFFIC = 190, 10, 30
"""Bytes that elementwise kernels of an eager bfloat16 step move for each token: per feature of
`d_model` and of `d_ff` in each layer, and per entry of the vocabulary. Counted, not measured."""
WEIGHT_TRAFFIC = 40
"""Bytes per parameter that clipping and AdamW move in a step."""
OTHERS = 0.5
"""Number of other programs' running processes, per core, above which a machine counts as busy."""
LARGEST_FILE = 1_000_000
"""Bytes of the largest file of speeds that is read; Fathom's own files are far smaller."""

Rate = tuple[float, float]
"""FLOPs of a layer in a training step, and FLOPs per second of the training."""


class TimeSource(StrEnum):
    """Source of the seconds of a training step."""

    MEASURED = "measured"
    DATA_SHEET = "by its data sheet"
    ESTIMATE = "an estimate"


@dataclass(frozen=True, slots=True)
class Speed:
    """Training speed of one trial: an estimate, corrected where the speed was measured.

    The correction is the ratio of measurement to estimate, interpolated over the FLOPs of a layer
    in a step, and constant beyond the measured sizes.
    """

    peak: float
    """FLOPs per second of layers that are large enough."""
    layer_seconds: float = 0.0
    """Time that a layer takes in a step whatever its size."""
    bandwidth: float | None = None
    """Bytes per second of a GPU's memory; None for a CPU, whose rate of operations reflects its
    memory."""
    measured: tuple[Rate, ...] = ()
    """FLOPs of a layer in a step, ascending, and the FLOPs per second measured there."""

    @property
    def source(self) -> TimeSource:
        """Source of the time: measurements of any size, a GPU's data sheet, or a rule of thumb."""
        if self.measured:
            return TimeSource.MEASURED
        return TimeSource.ESTIMATE if self.bandwidth is None else TimeSource.DATA_SHEET

    def flops_per_second(self, layer_flops: float) -> float:
        """FLOPs per second of a training whose layers take `layer_flops` FLOPs in a step."""
        estimate = self._estimate(layer_flops)
        if not self.measured:
            return estimate
        sizes = [math.log(size) for size, _ in self.measured]
        ratios = [math.log(rate / self._estimate(size)) for size, rate in self.measured]
        return estimate * math.exp(interpolated(math.log(layer_flops), sizes, ratios))

    def step_seconds(self, shape: Shape, tokens: int) -> float:
        """Seconds of a training step of a shape on `tokens` tokens."""
        flops = shape.train_flops_per_token * tokens
        if self.bandwidth is None or self.measured:
            return flops / self.flops_per_second(flops / shape.depth)
        moving = memory_traffic(shape, tokens) / self.bandwidth
        return max(shape.depth * self.layer_seconds, flops / self.peak + moving)

    def _estimate(self, layer_flops: float) -> float:
        return layer_flops / (self.layer_seconds + layer_flops / self.peak)


def memory_traffic(shape: Shape, tokens: int) -> float:
    """Bytes that kernels with little arithmetic move in a training step, by count."""
    networks = shape.depth // shape.blocks * shape.active_feed_forwards
    layers = WIDTH_TRAFFIC * shape.d_model * shape.depth + FF_TRAFFIC * shape.d_ff * networks
    each = layers + VOCABULARY_TRAFFIC * shape.vocab_size
    return tokens * each + WEIGHT_TRAFFIC * shape.params_total


def interpolated(at: float, places: Sequence[float], values: Sequence[float]) -> float:
    """The value at the place `at`, linear between `places` and constant beyond them."""
    right = bisect(places, at)
    if right in (0, len(places)):
        return values[min(right, len(places) - 1)]
    left = right - 1
    share = (at - places[left]) / (places[right] - places[left])
    return values[left] + share * (values[right] - values[left])


@dataclass(frozen=True, slots=True)
class KnownSpeeds:
    """The speeds that were measured on a device."""

    rates: tuple[Rate, ...] = ()
    """FLOPs of a layer in a step, ascending, and FLOPs per second."""
    start_seconds: float | None = None
    """Seconds of a search before its first trial and after its last; None if never measured."""


def known_speeds(device: str) -> KnownSpeeds:
    """The speeds measured on a device; none if the file is missing, damaged or unreadable."""
    entry = _read().get(device)
    if not isinstance(entry, dict):
        return KnownSpeeds()
    rates, start = entry.get("flops_per_second"), entry.get("start_seconds")
    found = rates if isinstance(rates, dict) else {}
    pairs = {_number(size): _number(rate) for size, rate in found.items()}
    known = tuple(sorted((size, rate) for size, rate in pairs.items() if size and rate))
    return KnownSpeeds(known, _number(start))


def busy_with_others(own: float) -> bool:
    """True if processes other than the `own` ones that train keep this machine busy."""
    try:
        load, _, _ = os.getloadavg()
    except OSError:
        return False
    return load > own + OTHERS * (os.cpu_count() or 1)


def keep_speeds(
    device: str, rates: Mapping[float, float], start_seconds: float | None = None, *,
    own: float = 1.0,
) -> None:  # fmt: skip
    """Adds measurements of a device to the file of speeds, if that can be written.

    If programs other than the `own` processes that train kept the machine busy, a measured speed
    replaces no better one, and a measured start is kept only if it is the shortest.
    """
    with suppress(OSError, RuntimeError):  # the latter without a home
        everything, known = _read(), known_speeds(device)
        before = {f"{size:.3g}": rate for size, rate in known.rates}
        new, start = {f"{size:.3g}": rate for size, rate in rates.items()}, start_seconds
        if busy_with_others(own):
            new = {size: max(rate, before.get(size, 0.0)) for size, rate in new.items()}
            start = min(start or math.inf, known.start_seconds or 0.0)
        entry: dict[str, Any] = {"flops_per_second": before | new}
        if start := start or known.start_seconds:
            entry["start_seconds"] = start
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_atomically(cache_folder() / FILE, json.dumps(everything | {device: entry}, indent=1))


def binned(rates: Iterable[Rate]) -> dict[float, float]:
    """Median speed, in FLOPs per second, by size: the FLOPs of a layer in a step, rounded to half a
    power of ten."""
    bins: defaultdict[float, list[float]] = defaultdict(list)
    for layer_flops, rate in rates:
        bins[10 ** (round(2 * math.log10(layer_flops)) / 2)].append(rate)
    return {size: median(found) for size, found in bins.items()}


def rates_by_device(
    records: Iterable[TrialRecord], since: float
) -> dict[tuple[str, bool], dict[float, float]]:
    """Median speeds by size, without evaluations, of trials that one device trained and that began
    at or after the Unix time `since`; keyed by the device and True if it is a GPU."""
    rates: defaultdict[tuple[str, bool], list[Rate]] = defaultdict(list)
    for record in records:
        if record.device and SEVERAL not in record.device:
            known = rates[record.device, record.peak_memory_bytes is not None]
            if _began_since(since, record) and record.train_seconds > 0:
                flops = record.train_flops
                layer_flops = flops / record.curve[-1].step / record.spec.shape.depth
                known.append((layer_flops, flops / record.train_seconds))
    return {device: binned(measured) for device, measured in rates.items()}


def start_seconds(records: Iterable[TrialRecord], since: float) -> float | None:
    """Seconds from the Unix time `since` to the first training step after it; None if there was
    none."""
    firsts = [
        point.time - point.train_seconds
        for record in records
        for point in record.curve[:1]
        if _began_since(since, record)
    ]
    return max(0.0, min(firsts) - since) if firsts else None


def _began_since(since: float, record: TrialRecord) -> bool:
    """True if a trial began between the Unix time `since` and now; a start after now is from before
    a clock was set back."""
    return since <= record.started <= time.time()


def _number(value: object) -> float | None:
    """A positive finite number, also from text; None for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 < number < math.inf else None


def _read() -> dict[str, Any]:
    with suppress(OSError, ValueError, RuntimeError):
        file: Path = cache_folder() / FILE
        if file.is_file() and file.stat().st_size <= LARGEST_FILE:
            values = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(values, dict):
                return values
    return {}
