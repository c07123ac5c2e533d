"""The best shapes as YAML and back: `search/export/best.py`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.models.options import Activation, Normalization, Residual
from fathom.search.analysis.answer.verdict import Kind, MayCostMore, NoiseUnknown, Seeds, Verdict
from fathom.search.commands.answers import train
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.export.best import (
    best_yaml,
    doubts,
    kept_answers,
    read_best,
    select,
    write_selected,
)
from fathom.search.formatting import format_count
from fathom.search.record_json import shape_from_json, to_values
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.groups import TrackingConfig
from fathom.search.words import study_reason
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.optima import verdict


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Conclusion:
    config = study(tracking=TrackingConfig(uri="postgresql://me:hunter2@host/db"))
    search = scheduler(config, tmp_path_factory.mktemp("run"))
    Simulation(search).run()
    return conclude(search.records, config)


def test_a_shape_comes_back_as_it_was_found_without_the_password(
    found: Conclusion, tmp_path: Path
) -> None:
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(found))
    assert "hunter2" not in path.read_text()
    for optimum, label in zip(found.optima, ("20k", "40k"), strict=True):
        best = read_best(path, label)
        assert best.shape == optimum.shape
        assert best.budget == optimum.budget
        assert best.config.model_copy(update={"tracking": found.config.tracking}) == found.config
    with pytest.raises(ConfigError, match=r"20k, 40k; choose one with --params"):
        read_best(path, None)
    path.write_text(select(path, "40000"))
    assert read_best(path, None).budget == 40_000, "a single budget needs no naming"


OPTIONS: dict[str, Any] = {
    "activation": Activation.RELU2,
    "queries_per_key": 1,
    "qk_norm": True,
    "residual": Residual.ADMIN_CLOSED,
    "norm": Normalization.RMS,
    "biases": True,
    "embedding_rank": 7,
    "smeared_keys": True,
    "looped": True,
    "bidirectional": True,
}


def test_every_option_of_a_shape_comes_back(found: Conclusion, tmp_path: Path) -> None:
    optimum = found.optima[0]
    assert optimum.shape is not None
    shape = replace(optimum.shape, **OPTIONS)
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(replace(found, optima=(replace(optimum, shape=shape),))))
    assert read_best(path, None).shape == shape


def test_a_file_of_before_an_option_is_read_with_its_default(
    found: Conclusion, tmp_path: Path
) -> None:
    optimum = found.optima[0]
    content = yaml.safe_load(best_yaml(replace(found, optima=(optimum,))))
    for option in OPTIONS:
        del content["best"][0]["shape"][option]
        content["study"]["model"].pop(option, None)
    for group in ("attention", "feed_forward"):
        del content["study"]["model"][group]
    del content["study"]["space"]["feed_forward"]
    path = tmp_path / "best.yaml"
    path.write_text(yaml.safe_dump(content))
    assert read_best(path, None).shape == optimum.shape
    assert read_best(path, None).config.model == found.config.model


def test_records_keep_every_option_and_those_of_before_are_read(
    found: Conclusion,
) -> None:
    optimum = found.optima[0]
    assert optimum.shape is not None
    shape = replace(optimum.shape, **OPTIONS)
    line = json.loads(json.dumps(to_values(shape)))
    assert shape_from_json(line) == shape
    old = {name: value for name, value in line.items() if name not in OPTIONS}
    assert shape_from_json(old) == optimum.shape
    with pytest.raises(ValueError, match="`residual` can't be 'sideways'"):
        shape_from_json(line | {"residual": "sideways"})
    with pytest.raises(ValueError, match="`looped` can't be 'yes'"):
        shape_from_json(line | {"looped": "yes"})


@pytest.mark.parametrize(
    "text", ["", "- 1", "best: 3", "best: [1]\nstudy: {}", "{", "best: []\nstudy: {study: x}"]
)
def test_a_file_that_is_no_export_is_a_users_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"best\.yaml"):
        read_best(path, None)


def test_a_shape_far_beyond_its_budget_is_refused(found: Conclusion, tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    content = yaml.safe_load(best_yaml(found))
    content["best"][0]["shape"]["d_model"] = 10_000_000
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match="must have about as many parameters, got"):
        read_best(path, str(content["best"][0]["budget"]))


def test_a_file_of_something_else_is_not_overwritten(found: Conclusion, tmp_path: Path) -> None:
    best, out = tmp_path / "best.yaml", tmp_path / "out.yaml"
    best.write_text(best_yaml(found))
    largest = format_count(found.optima[-1].budget)
    write_selected(best, None, None, out)
    write_selected(best, largest, None, out)
    assert out.read_text() == select(best, largest)
    for theirs in ("depth,loss\n", "best: []\n", "{"):
        out.write_text(theirs)
        with pytest.raises(ConfigError, match="must be a new file, or one of `fathom export`"):
            write_selected(best, largest, None, out)
        assert out.read_text() == theirs


def test_a_run_without_an_answer_exports_nothing(found: Conclusion, tmp_path: Path) -> None:
    best = tmp_path / "best.yaml"
    best.write_text(best_yaml(replace(found, optima=())))
    for ask in (select, read_best):
        with pytest.raises(ConfigError, match="holds no best shape, as no budget has an answer"):
            ask(best, None)


def test_a_reason_that_commands_the_terminal_is_refused(tmp_path: Path, found: Conclusion) -> None:
    path = tmp_path / "best.yaml"
    content = yaml.safe_load(best_yaml(found))
    content["best"][0] |= {"verdict": "insufficient", "reason": "\x1b]0;owned\x07\x1b[2J"}
    path.write_text(yaml.safe_dump(content))
    for read in (doubts, select, read_best):
        with pytest.raises(ConfigError, match=r"'\\x1b\]0;owned.* can't be printed") as refusal:
            read(path, None)
        assert str(refusal.value).isprintable()


def test_an_export_of_an_answer_that_is_not_settled_says_so(
    tmp_path: Path, found: Conclusion
) -> None:
    [optimum, *rest] = found.optima
    poor = replace(optimum, verdict=Verdict(Kind.INSUFFICIENT, NoiseUnknown(), Seeds(3)))
    sure = [replace(optimum, verdict=verdict(Kind.IDENTIFIED)) for optimum in rest]
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(replace(found, optima=(poor, *sure))))
    reason = study_reason(poor.verdict)
    line = f"the answer for {format_count(poor.budget)} is insufficient: {reason}"
    assert doubts(path, None) == [line]
    assert doubts(path, str(poor.budget)) == [line]


def test_training_an_answer_that_is_not_settled_says_so_first(
    tmp_path: Path, found: Conclusion, capsys: pytest.CaptureFixture[str]
) -> None:
    [optimum, *rest] = found.optima
    poor = replace(optimum, verdict=Verdict(Kind.INSUFFICIENT, MayCostMore(3, 0.16, (2,)), None))
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(replace(found, optima=(poor, *rest))))
    train(path, budget=str(poor.budget), tokens="4k", out=tmp_path / "trained")
    said = capsys.readouterr().err
    assert "is insufficient: depth 3 may cost more than 0.005 nats" in said


def test_a_budget_that_is_an_amount_has_its_unit(found: Conclusion, tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    content = yaml.safe_load(best_yaml(found))
    content["best"][0] |= {"budget": 12, "count": "train_seconds"}
    path.write_text(yaml.safe_dump(content))
    assert [size for size, *_ in kept_answers(path)] == ["12 seconds", "40k"]
    with pytest.raises(ConfigError, match="12 seconds, 40k; choose one"):
        read_best(path, None)
