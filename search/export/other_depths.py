"""Depths of a budget other than the answer, in the form of best.yaml: the best shape and the cost
of each."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from fathom.models.shape import Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.record_json import DAMAGE, problem_of, shape_from_json, to_values
from fathom.search.records import TrialRecord
from fathom.search.study.file.errors import ConfigError

OTHERS = "other_depths"
"""Key of an entry for its other depths: a row for each that was trained to the end."""
INSTEAD = "instead_of"
"""Key of an entry whose depth is not the answer: it holds the answer, and the cost of choosing
another depth."""
DIGITS = 6
"""Number of decimals of a value in nats, and number of significant digits of a speed."""


def other_depths(optimum: Optimum, records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Rows of the depths that were trained to the end but are not the answer, ascending."""
    assert optimum.shape is not None, "an answer has a shape"
    costs = {cost.depth: cost for cost in optimum.costs}
    tokens = {record.spec.shape: record.spec.horizon_tokens for record in records}
    same, own_speed = to_values(optimum.shape), _speed(optimum.shape, records)
    rows = []
    for known in optimum.depths:
        if known.depth == optimum.optimal_depth:
            continue
        cost, speed = costs.get(known.depth), _speed(known.shape, records)
        row = {
            "depth": known.depth,
            "nats": round(cost.nats, DIGITS) if cost else None,
            "nats_interval": [round(end, DIGITS) for end in cost.interval] if cost else None,
            "speed": round(speed / own_speed, 3) if speed and own_speed else None,
            "tokens": at if (at := tokens.get(known.shape)) != optimum.tokens else None,
            "shape": {k: v for k, v in to_values(known.shape).items() if v != same.get(k)},
        }
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _speed(shape: Shape, records: Sequence[TrialRecord]) -> float | None:
    """Median tokens per second of a shape's trials that ran to the end; None if not known."""
    ended = (r.tokens_per_second for r in records if r.spec.shape == shape and r.loss is not None)
    return median(known) if (known := [speed for speed in ended if speed]) else None


def at_depth(entry: Mapping[str, Any], depth: int, where: str) -> tuple[dict[str, Any], Shape]:
    """Returns an entry of best.yaml with the shape of another depth, and that shape.

    Raises:
        ConfigError: if no shape of this depth was trained to the end; the message lists those that
            were, and begins with `where`.
    """
    try:
        rows = {row["depth"]: row for row in entry.get(OTHERS, ())}
        answer = entry["shape"]["depth"]
        if depth == answer:
            return dict(entry), shape_from_json(entry["shape"])
        if depth in rows:
            return _instead(entry, rows[depth])
        listed = ", ".join(map(str, sorted([answer, *rows])))
    except DAMAGE as error:
        raise ConfigError(f"{where}: the shape can't be built: {problem_of(error)}") from error
    raise ConfigError(
        f"`--depth` must be a depth that was trained to the end, got {depth}; {where} has {listed}"
    )


def _instead(entry: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[dict[str, Any], Shape]:
    """The entry with the depth of `row` in place of the answer, and the shape of that depth."""
    shape = shape_from_json(entry["shape"] | row["shape"])
    cost = {name: row[name] for name in ("nats", "nats_interval", "speed") if name in row}
    chosen = {
        **{name: value for name, value in entry.items() if name != OTHERS},
        "tokens": row.get("tokens", entry["tokens"]),
        **({"loss": entry["loss"] + row["nats"]} if "nats" in row else {}),
        INSTEAD: {"depth": entry["shape"]["depth"], **cost},
    }
    return chosen, shape


def cost_line(entry: object) -> str:
    """Returns a line on the cost of an entry's depth compared with the answer; empty if the depth
    is the answer.

    Raises:
        ConfigError: if the entry's own account of it is damaged.
    """
    if not isinstance(entry, Mapping) or INSTEAD not in entry:
        return ""
    try:
        return _cost_line(entry["shape"]["depth"], entry[INSTEAD])
    except DAMAGE as error:
        raise ConfigError(f"`{INSTEAD}` of the best shape: {problem_of(error)}") from error


def _cost_line(depth: int, instead: Mapping[str, Any]) -> str:
    cost = "a loss that is not known, since fewer than three depths have one"
    if "nats" in instead:
        low, high = instead["nats_interval"]
        cost = f"{instead['nats']:+.4f} nats (95 %: {low:+.4f} to {high:+.4f})"
    faster = ""
    if "speed" in instead:
        faster = f"; in the search it trained {instead['speed']:.2f} times as fast"
    return f"depth {depth} instead of {instead['depth']} costs {cost}{faster}"
