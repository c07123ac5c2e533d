"""The file best.yaml: the best shape of each budget, how sure it is, and the study that found
it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.models.shape import Count, Shape
from fathom.objectives.keys import parse_duration
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.findings import SIZE_ROW, optimum_row
from fathom.search.export.best_text import best_text
from fathom.search.export.other_depths import OTHERS, at_depth, cost_line, other_depths
from fathom.search.formatting import budget_text, format_count
from fathom.search.record_json import DAMAGE, check_controls, problem_of, shape_from_json, to_values
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.options import count_of
from fathom.search.study.file.safe_yaml import parse_yaml
from fathom.search.study.file.study_file import changed, study_of
from fathom.search.study.file.text_file import FileError, read_text
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import is_horizon, study_at
from fathom.search.training.command.arguments import best_arguments

ANSWER = (
    *("budget", "count", "tokens", "optimal_depth", "lowest_depth", "interval"),
    *("plateau", "verdict", "reason", "loss"),
)
"""Names in `optimum_row` that an entry of best.yaml has, besides the sizes of its shape."""


MOST_TIMES = 2
"""Multiple of a budget above which a shape is too large to belong to it."""
HORIZON = "horizon"
"""Key of an entry for the short name of its horizon, if the study has several horizons."""
UNDECIDED = [kind.value for kind in Kind if not kind.decided]
"""Verdicts with which an answer is only the best so far."""


@dataclass(frozen=True, slots=True)
class BestShape:
    """The best shape of one budget and the study that found it."""

    config: StudyConfig
    budget: int
    shape: Shape


def best_yaml(conclusion: Conclusion) -> str:
    """Returns best.yaml: the best shape of each budget that has one, and the study."""
    return entries_yaml(conclusion.config, best_entries(conclusion))


def best_entries(conclusion: Conclusion) -> list[dict[str, Any]]:
    """Returns the entries of best.yaml: one for each budget that has a best shape."""
    config = conclusion.config
    return [
        _entry(optimum, config) | {OTHERS: other_depths(optimum, records)}
        for optimum in conclusion.optima
        if optimum.shape
        for records in [conclusion.records_of(optimum.budget)]
    ]


def entries_yaml(config: StudyConfig, entries: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text of best.yaml; each entry has at least a `budget` and a `shape`."""
    # A tracking address may hold a password, and is of no use to whoever trains the shape.
    study = config.model_dump(mode="json", exclude={"tracking"})
    return best_text({"best": list(entries), "study": study})


def shape_entry(shape: Shape) -> dict[str, Any]:
    """Returns the sizes of a shape in the form of an entry of best.yaml."""
    return {
        **shape.counts,
        "ff_ratio": round(shape.ff_ratio, 4),
        "shape": to_values(shape),
    }


def best_file(source: Path) -> Path:
    """Returns the path of the best.yaml in a run folder; a path of a file is returned as it is.

    Raises:
        ConfigError: if the run has none.
    """
    if not source.exists():
        raise ConfigError(f"there is no {source}; name a run folder (`ls runs`), or its best.yaml")
    if not source.is_dir():
        return source
    folder = RunFolder(source)
    folder.check_files()
    if not folder.best.exists():
        if not folder.config.exists():
            raise ConfigError(f"{source} is not a run folder: it has no config.yaml; see `ls runs`")
        raise ConfigError(f"{source} has no best.yaml yet; `fathom run` or `report` writes it")
    return folder.best


def write_selected(
    path: Path, budget: str | None, horizon: str | None, out: Path, depth: int | None = None
) -> None:
    """Writes the text that `select` returns to a new file, or over a file with an earlier such
    text.

    Raises:
        ConfigError: as `select`, and if the file holds something else.
    """
    text = select(path, budget, horizon, depth)
    if out.exists():
        try:
            _content(out)
        except (ConfigError, OSError) as error:
            raise ConfigError(
                f"`--out` must be a new file, or one of `fathom export`, got {out}; name another"
            ) from error
    write_atomically(out, text)


def select(
    path: Path, budget: str | None, horizon: str | None = None, depth: int | None = None
) -> str:
    """Returns the text of best.yaml with only one budget or horizon, or with all entries if none is
    named; `depth` replaces the answer's depth."""
    return best_text(_selected(path, budget, horizon, depth))


def _selected(
    path: Path, budget: str | None, horizon: str | None, depth: int | None
) -> dict[str, Any]:
    content = _content(path)
    if budget is not None or depth is not None:
        content["best"] = [_chosen(content, budget, horizon, depth, path)]
    elif horizon is not None:
        content["best"] = _at_horizon(content, horizon, path)
    return content


def read_best(
    path: Path, budget: str | None, horizon: str | None = None, depth: int | None = None
) -> BestShape:
    """Returns the shape of a budget and a horizon from best.yaml; each may be None if the file has
    only one. `depth` chooses another depth than the answer.

    Raises:
        ConfigError: if the file is not a best.yaml, the budget or the horizon is missing or
            ambiguous, or the depth was not trained to the end.
    """
    content = _content(path)
    entry = _chosen(content, budget, horizon, depth, path)
    try:
        config = study_at(study_of(content["study"]), entry.get(HORIZON))
        shape = shape_from_json(entry["shape"])
    except DAMAGE as error:
        raise ConfigError(f"{path}: the shape can't be built: {problem_of(error)}") from error
    if entry["budget"] not in config.budgets:
        known = ", ".join(map(format_count, config.budgets))
        raise ConfigError(
            f"{path}: the budget of a shape must be in its study's `budgets`, {known}, got "
            f"{format_count(entry['budget'])}; export it again with `fathom export`"
        )
    most = config.space.params[1] if config.space.params else entry["budget"]
    if (size := shape.size(config.count)) > MOST_TIMES * most:
        raise ConfigError(
            f"{path}: a shape of the budget {format_count(entry['budget'])} must have about as "
            f"many parameters, got {format_count(size)}; export it again with `fathom export`"
        )
    if not config.coin.timed:
        return BestShape(config, entry["budget"], shape)
    tokens = entry.get("tokens")
    if type(tokens) is not int or tokens < 1:
        raise ConfigError(f"{path}: `tokens` of the best shape must be above 0, got {tokens!r}")
    return shape_to_train(config, entry["budget"], shape, tokens)


def kept_answers(path: Path) -> list[tuple[str, int, str]]:
    """Returns size, depth and verdict of each answer in best.yaml; none if the file is missing or
    damaged."""
    try:
        entries = _content(path)["best"]
        return [(_name(e), int(e["optimal_depth"]), str(e["verdict"])) for e in entries]
    except (*DAMAGE, ConfigError, OSError):
        return []


def shape_to_train(config: StudyConfig, budget: int, shape: Shape, tokens: int) -> BestShape:
    """A best shape with the study that trains it. If the study spends seconds, that study gets the
    shape's `tokens` instead, since step times hold only for the search's device; if sizes are free,
    it gets the shape's size too."""
    if not config.coin.timed:
        return BestShape(config, budget, shape)
    if config.count.frees_size:
        return of_one_size(config, shape, tokens)
    return BestShape(changed(config, {config.coin.key: None, "tokens": tokens}), budget, shape)


def of_one_size(config: StudyConfig, shape: Shape, tokens: int) -> BestShape:
    """A best shape with a study that has the shape's size and these tokens, made from a study whose
    size is free."""
    size = shape.params_total
    changes = {"count": Count.TOTAL, "budgets": [size], "space.params": None, "tokens": tokens}
    return BestShape(changed(config, changes), size, shape)


def doubts(
    source: Path, budget: str | None, horizon: str | None = None, depth: int | None = None
) -> list[str]:
    """Returns a line for each exported answer that its study could not settle, and a line with the
    cost for each depth that is not the answer."""
    chosen = _selected(source, budget, horizon, depth)["best"]
    unsettled = [
        f"the answer for {_name(entry)} is {entry['verdict']}: {entry['reason']}"
        for entry in chosen
        if isinstance(entry, Mapping) and entry.get("verdict") in UNDECIDED
        if type(entry.get("budget")) is int and isinstance(entry.get("reason"), str)
    ]
    return unsettled + [line for entry in chosen if (line := cost_line(entry))]


def _entry(optimum: Optimum, config: StudyConfig) -> dict[str, Any]:
    assert optimum.shape is not None
    row = optimum_row(optimum)
    entry = {name: row[name] for name in (*ANSWER, *SIZE_ROW) if name in row}
    return _with_shape(entry, optimum.shape, config)


def _with_shape(entry: dict[str, Any], shape: Shape, config: StudyConfig) -> dict[str, Any]:
    """The entry with the sizes of a shape, and with the command that trains the shape if the study
    has one."""
    whole = entry | shape_entry(shape)
    if config.train.command:
        whole["command"] = shlex.join(best_arguments(config, entry["budget"], shape))
    return whole


def _content(source: Path) -> dict[str, Any]:
    try:
        content = parse_yaml(read_text(source))
    except FileError as error:
        raise ConfigError(f"{source} {error}; `fathom export` writes such a file") from error
    parts = content if isinstance(content, Mapping) else {}
    if not isinstance(parts.get("best"), list) or not isinstance(parts.get("study"), Mapping):
        raise ConfigError(
            f"{source} must hold `best` and `study`; `fathom export runs/NAME` writes such a file"
        )
    if not parts["best"]:
        raise ConfigError(
            f"{source} holds no best shape, as no budget has an answer yet; go on with `fathom run`"
        )
    try:
        check_controls(parts)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}; `fathom report` writes the file again") from error
    return dict(parts)


def _name(entry: Mapping[str, Any]) -> str:
    """The budget of an entry, and its horizon if the entry names one, as text."""
    horizon = f" at the horizon {entry[HORIZON]}" if isinstance(entry.get(HORIZON), str) else ""
    return f"{_budget(entry)}{horizon}"


def _budget(entry: Mapping[str, Any]) -> str:
    """The budget of an entry, with its unit if the entry has a counting rule, as text."""
    count = entry.get("count")
    return budget_text(entry["budget"], Count(count) if count in list(Count) else Count.TOTAL)


def _at_horizon(content: Mapping[str, Any], horizon: str | None, source: Path) -> list[Any]:
    """The entries of a horizon; all entries if the study has only one."""
    study, entries = content["study"], list(content["best"])
    known = [entry[HORIZON] for entry in entries if isinstance(entry, dict) and HORIZON in entry]
    labels = list(dict.fromkeys(map(str, known)))
    listed = ", ".join(labels)
    if not labels:
        own = study.get("horizon_of") and (study.get("tokens") or study.get("tokens_per_parameter"))
        if horizon is not None and not is_horizon(horizon, own):
            raise ConfigError(f"{source} holds one horizon only; drop --horizon {horizon}")
        return entries
    if horizon is None and len(labels) > 1:
        raise ConfigError(f"{source} holds the horizons {listed}; choose one with --horizon")
    wanted = labels[0] if horizon is None else horizon
    found = [e for e in entries if isinstance(e, dict) and is_horizon(wanted, e.get(HORIZON))]
    if not found:
        raise ConfigError(f"{source} has no horizon {wanted}; it holds {listed}")
    return found


def _chosen(
    content: Mapping[str, Any], budget: str | None, horizon: str | None, depth: int | None,
    source: Path,
) -> dict[str, Any]:  # fmt: skip
    """The entry of a budget and a horizon, with another depth if one is named."""
    entry = _choose(content, budget, horizon, source)
    if depth is None:
        return entry
    other, shape = at_depth(entry, depth, str(source))
    return _with_shape(other, shape, study_at(study_of(content["study"]), entry.get(HORIZON)))


def _choose(
    content: Mapping[str, Any], budget: str | None, horizon: str | None, source: Path
) -> dict[str, Any]:
    found = [
        entry
        for entry in _at_horizon(content, horizon, source)
        if isinstance(entry, dict) and type(entry.get("budget")) is int
    ]
    labels = ", ".join(map(_budget, found)) or "none"
    if budget is None:
        if len(found) == 1:
            return found[0]
        raise ConfigError(f"{source} holds the budgets {labels}; choose one with --params")
    wanted = count_of("--params", str(parse_duration(budget)))
    for entry in found:
        if entry["budget"] == wanted:
            return entry
    raise ConfigError(f"{source} has no shape for budget {budget}; it holds {labels}")
