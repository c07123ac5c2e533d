"""What a line of a command says: JSON, or what a parser of the user's own makes of it."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.objectives.keys import short
from fathom.search.record_json import LARGEST, LARGEST_REAL

Parser = Callable[[str], Mapping[str, Any] | None]
"""From a line to its values, or None where it has none."""
OWN = ("tokens", "step", "parameters", "loss", "train_loss")
"""Names that have a meaning; every other number of a line is a metric."""


class LineError(ValueError):
    """A line with values that can't be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A loss of a command's training."""

    tokens: int
    loss: float
    """Held-out loss in nats per token."""
    train_loss: float = math.nan
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a line says: nothing, an evaluation, the number of parameters, or both."""

    evaluation: Evaluation | None = None
    parameters: int | None = None
    """Parameters of the model, counted as the study's budgets are."""


def json_values(text: str) -> Mapping[str, Any] | None:
    """The object in a line of JSON; None where the line is none, as most lines of a log."""
    if not text.startswith("{"):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def read_line(text: str, parser: Parser, *, tokens_per_step: int) -> CommandLine:
    """What a line says; nothing where it has neither a loss nor a number of parameters.

    Raises:
        LineError: if a value can't be right, or a loss comes without its tokens.
    """
    values = parser(text)
    if not isinstance(values, Mapping):
        return CommandLine()
    parameters = _whole(values, "parameters")
    if "loss" not in values:
        return CommandLine(None, parameters)
    tokens, step = _whole(values, "tokens"), _whole(values, "step")
    if tokens is None and step is None:
        raise LineError(f"a loss must come with `tokens` or `step`, got {short(text)}")
    evaluation = Evaluation(
        tokens=(step or 0) * tokens_per_step if tokens is None else tokens,
        loss=_real(values, "loss"),
        train_loss=_real(values, "train_loss") if "train_loss" in values else math.nan,
        metrics={
            str(name): float(value)
            for name, value in values.items()
            if name not in OWN and _is_number(value) and abs(value) < LARGEST_REAL
        },
    )
    return CommandLine(evaluation, parameters)


def _whole(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is not None and not (_is_number(value) and 0 <= value < LARGEST and value % 1 == 0):
        raise LineError(f"`{name}` must be a whole number, got {short(value)}")
    return None if value is None else int(value)


def _real(values: Mapping[str, Any], name: str) -> float:
    value = values[name]
    if not _is_number(value):
        raise LineError(f"`{name}` must be a number, got {short(value)}")
    return math.inf if abs(value) >= LARGEST_REAL else float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
