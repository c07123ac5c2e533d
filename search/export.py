"""The best shapes as YAML: everything needed to train them, and what is known about them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from models.shape import Positions, Shape
from search.analysis.optimum import Optimum
from search.budget import format_count
from search.config import ConfigError, StudyConfig, parse, parse_count


@dataclass(frozen=True, slots=True)
class BestShape:
    """One budget's answer, read back from a file."""

    config: StudyConfig
    budget: int
    shape: Shape


def best_yaml(config: StudyConfig, optima: Sequence[Optimum]) -> str:
    """The best shape of each budget that has one, with the study that found it."""
    content = {
        "best": [_entry(optimum) for optimum in optima if optimum.shape is not None],
        # A tracking address may hold a password, and is of no use to whoever trains the shape.
        "study": config.model_dump(mode="json", exclude={"tracking"}),
    }
    return yaml.safe_dump(content, sort_keys=False)


def select(text: str, budget: str | None, source: Path) -> str:
    """The same file with one budget only; all of them when none is named."""
    content = _content(text, source)
    if budget is not None:
        content["best"] = [_choose(content["best"], budget, source)]
    return yaml.safe_dump(content, sort_keys=False)


def read_best(path: Path, budget: str | None) -> BestShape:
    """The shape to train from an exported file.

    Raises:
        ConfigError: when the file is not one of ours, or the budget is not in it or not clear.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read {path}; `fathom export` writes such a file") from error
    content = _content(text, path)
    entry = _choose(content["best"], budget, path)
    config = parse(yaml.safe_dump(content["study"]))
    try:
        shape = entry["shape"] | {"positions": Positions(entry["shape"]["positions"])}
        return BestShape(config, parse_count(entry["budget"]), Shape(**shape))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: the shape can't be built: {error}") from error


def _entry(optimum: Optimum) -> dict[str, Any]:
    assert optimum.shape is not None
    shape = optimum.shape
    return {
        "budget": optimum.budget,
        "count": optimum.count.value,
        "tokens": optimum.tokens,
        "optimal_depth": optimum.optimal_depth,
        "interval": list(optimum.interval) if optimum.interval else None,
        "plateau": list(optimum.plateau),
        "verdict": optimum.verdict.value,
        "reason": optimum.reason,
        "loss": optimum.loss,
        "params_total": shape.params_total,
        "params_non_embedding": shape.params_non_embedding,
        "ff_ratio": round(shape.ff_ratio, 4),
        "shape": asdict(shape) | {"positions": shape.positions.value},
    }


def _content(text: str, source: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not a plain YAML file; export it again") from error
    parts = content if isinstance(content, Mapping) else {}
    if not isinstance(parts.get("best"), list) or not isinstance(parts.get("study"), Mapping):
        raise ConfigError(
            f"{source} must hold `best` and `study`; `fathom export runs/NAME` writes such a file"
        )
    return dict(parts)


def _choose(entries: list[Any], budget: str | None, source: Path) -> dict[str, Any]:
    found = [entry for entry in entries if isinstance(entry, dict) and "budget" in entry]
    labels = ", ".join(format_count(entry["budget"]) for entry in found) or "none"
    if budget is None:
        if len(found) == 1:
            return found[0]
        raise ConfigError(f"{source} holds the budgets {labels}; choose one with --budget")
    wanted = _parse_budget(budget)
    for entry in found:
        if entry["budget"] == wanted:
            return entry
    raise ConfigError(f"{source} has no shape for budget {budget}; it holds {labels}")


def _parse_budget(budget: str) -> int:
    try:
        return parse_count(budget)
    except ValueError as error:
        raise ConfigError(f"`--budget` {error}") from error
