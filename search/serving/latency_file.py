"""The file latency.json of a run: what its shapes take to answer, as `fathom latency` found it."""

import json
from dataclasses import asdict
from typing import Any

from fathom.search.record_json import DAMAGE, check_controls, problem_of, shape_from_json, to_values
from fathom.search.run_folder import RunFolder, RunFolderError, write_atomically
from fathom.search.serving.values import Duration, Latency, Request, ShapeTimes


def write_latency(folder: RunFolder, latency: Latency) -> None:
    """Writes latency.json in place of an earlier one."""
    write_atomically(folder.latency, json.dumps(latency_json(latency), indent=1) + "\n")


def read_latency(folder: RunFolder) -> Latency | None:
    """Returns what `fathom latency` found last; None if it was not asked.

    Raises:
        RunFolderError: if the file is damaged.
    """
    if not folder.latency.exists():
        return None
    try:
        values = json.loads(folder.latency.read_text(encoding="utf-8"))
        check_controls(values)
        return _latency_of(values)
    except DAMAGE as error:
        raise RunFolderError(
            f"{folder.latency}: {problem_of(error)}; delete it, and `fathom latency` writes it anew"
        ) from error


def latency_json(latency: Latency) -> dict[str, Any]:
    """Returns latency.json as values: times in seconds, sizes in bytes."""
    return {
        "request": asdict(latency.request),
        "bytes_per_number": latency.number,
        "device": latency.device,
        "budgets": [
            {
                "budget": budget,
                "model_error": latency.model_errors[budget],
                "shapes": [_shape_json(latency, known) for known in times],
            }
            for budget, times in latency.times.items()
        ],
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
    budgets = values["budgets"]
    return Latency(
        request=Request(**{key: int(value) for key, value in values["request"].items()}),
        number=int(values["bytes_per_number"]),
        device=str(values["device"]),
        times={int(b["budget"]): tuple(map(_times_of, b["shapes"])) for b in budgets},
        model_errors={int(b["budget"]): _optional(b["model_error"]) for b in budgets},
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


def _optional(value: Any) -> float | None:
    return None if value is None else float(value)
