"""Reads and writes latency.json in a run folder: the inference times of shapes by `fathom latency`.

Each budget has the request, the device and the times of the last command that asked for it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from fathom.search.record_json import DAMAGE, check_controls, problem_of, shape_from_json, to_values
from fathom.search.run_folder import RunFolder, RunFolderError, write_atomically
from fathom.search.serving.values import Duration, Latency, Request, ShapeTimes


def write_latency(
    folder: RunFolder, before: Mapping[int, Latency], found: Iterable[Latency]
) -> None:
    """Writes latency.json: the times `found` now, and those of other budgets from `before`."""
    budgets = {**before, **{latency.budget: latency for latency in found}}
    entries = [latency_json(budgets[size]) for size in sorted(budgets)]
    write_atomically(folder.latency, json.dumps({"budgets": entries}, indent=1) + "\n")


def read_latency(folder: RunFolder) -> dict[int, Latency]:
    """Returns budget -> its last result of `fathom latency`; empty if it never ran.

    Raises:
        RunFolderError: if the file is damaged.
    """
    if not folder.latency.exists():
        return {}
    try:
        values = json.loads(folder.latency.read_text(encoding="utf-8"))
        check_controls(values)
        return {latency.budget: latency for latency in map(_latency_of, values["budgets"])}
    except DAMAGE as error:
        raise RunFolderError(
            f"{folder.latency}: {problem_of(error)}; delete it, and `fathom latency` makes it again"
        ) from error


def latency_json(latency: Latency) -> dict[str, Any]:
    """Returns the entry of a budget in latency.json: times in seconds, sizes in bytes."""
    return {
        "budget": latency.budget,
        "request": asdict(latency.request),
        "bytes_per_number": latency.number,
        "device": latency.device,
        "model_error": latency.model_error,
        "shapes": [_shape_json(latency, known) for known in latency.times],
    }


def _shape_json(latency: Latency, times: ShapeTimes) -> dict[str, Any]:
    return {
        "depth": times.shape.depth,
        "measured": times.measured,
        "prefill": asdict(times.prefill),
        "token": asdict(times.token),
        "tokens_per_second": latency.throughput(times),
        "weight_bytes": latency.weight_bytes(times.shape),
        "cache_bytes": latency.cache_bytes(times.shape),
        "shape": to_values(times.shape),
    }


def _latency_of(values: dict[str, Any]) -> Latency:
    error = values["model_error"]
    return Latency(
        budget=int(values["budget"]),
        request=Request(**{key: int(value) for key, value in values["request"].items()}),
        number=int(values["bytes_per_number"]),
        device=str(values["device"]),
        times=tuple(map(_times_of, values["shapes"])),
        model_error=None if error is None else float(error),
    )


def _times_of(values: dict[str, Any]) -> ShapeTimes:
    return ShapeTimes(
        shape=shape_from_json(values["shape"]),
        prefill=_duration_of(values["prefill"]),
        token=_duration_of(values["token"]),
        measured=bool(values["measured"]),
    )


def _duration_of(values: dict[str, Any]) -> Duration:
    return Duration(float(values["seconds"]), float(values["error"]))
