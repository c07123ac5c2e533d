"""The JSON Schema of study files: it knows what the parser knows, as far as a schema can."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from fathom.search.study.file.errors import ConfigError, groups_of
from fathom.search.study.keys.config import StudyConfig, dump, load, parse
from fathom.search.study.keys.json_schema import modeline, schema_text
from tests.support.places import ROOT

COPY = ROOT / "configs" / "study.schema.json"
FOLDERS = ("configs", "benchmarks", "examples")
STUDIES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.yaml"))]
MINIMAL = {"study": "s", "objective": "language", "budgets": ["1M"]}


@pytest.fixture(scope="module")
def schema() -> Draft7Validator:
    text = json.loads(schema_text())
    Draft7Validator.check_schema(text)
    return Draft7Validator(text)


def short_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_copy_for_editors_equals_the_output_of_the_command() -> None:
    assert COPY.read_text() == schema_text(), "run `fathom schema --out configs/study.schema.json`"


@pytest.mark.parametrize("path", STUDIES, ids=short_name)
def test_a_shipped_study_fits_the_schema_and_names_it(path: Path, schema: Draft7Validator) -> None:
    text = path.read_text()

    assert not list(schema.iter_errors(yaml.safe_load(text)))
    named = text.splitlines()[0].removeprefix(modeline(""))
    assert (path.parent / named).resolve() == COPY


@pytest.mark.parametrize("path", STUDIES, ids=short_name)
def test_a_resolved_study_fits_the_schema(path: Path, schema: Draft7Validator) -> None:
    assert not list(schema.iter_errors(yaml.safe_load(dump(load(path)))))


def with_foreign_keys(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The values with a key that nobody knows, once in each group."""
    yield {**values, "foreign": 1}
    for key, below in values.items():
        if isinstance(below, Mapping) and ":" not in str(below.get("name", "")):
            yield from ({**values, key: changed} for changed in with_foreign_keys(below))


@pytest.mark.parametrize("path", STUDIES, ids=short_name)
def test_an_unknown_key_in_any_group_does_not_fit(path: Path, schema: Draft7Validator) -> None:
    for mutated in with_foreign_keys(yaml.safe_load(path.read_text())):
        assert not schema.is_valid(mutated), mutated


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": "10M"},
        {"tokens": 10_000_000},
        {"budgets": [300_000, "1.5M", "2e9"]},
        {"train": {"learning_rate": "4e-3", "batch_size": "auto"}},
        {"objective": "hop"},
        {"objective": {"name": "hop", "hops": 8}},
        {"objective": "my_package.my_task:MyObjective"},
        {"objective": {"name": "a.b:C", "context": 9, "own": {"deep": [1]}}},
    ],
)
def test_a_study_that_the_parser_reads_fits(
    changes: dict[str, Any], schema: Draft7Validator
) -> None:
    parse(yaml.safe_dump(MINIMAL | changes))
    assert schema.is_valid(MINIMAL | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": "lots"},
        {"tolerance": 0.5},
        {"tolerance": "wide"},
        {"seed": -1},
        {"trials": 0},
        {"trials": 2.5},
        {"trials": True},
        {"study": "../x"},
        {"budgets": "1M"},
        {"budgets": []},
        {"count": "all"},
        {"space": {"depth": [1]}},
        {"space": {"ff_ratio": [1, 2, 3]}},
        {"train": {"batch_size": "big"}},
        {"objective": "vision"},
        {"objective": {"context": 8}},
        {"objective": {"name": "hop", "diameter": 3}},
        {"objective": {"name": "connectivity", "hops": 3}},
        {"objective": {"name": "language", "tokenizer": "words"}},
    ],
    ids=str,
)
def test_a_study_that_the_parser_refuses_does_not_fit_if_a_schema_can_express_it(
    changes: dict[str, Any], schema: Draft7Validator
) -> None:
    with pytest.raises(ConfigError):
        parse(yaml.safe_dump(MINIMAL | changes))
    assert not schema.is_valid(MINIMAL | changes)


@pytest.mark.parametrize("key", MINIMAL)
def test_a_required_key_is_required(key: str, schema: Draft7Validator) -> None:
    assert not schema.is_valid({name: MINIMAL[name] for name in MINIMAL.keys() - {key}})


def test_every_key_of_a_study_has_its_explanation_or_that_of_its_group() -> None:
    properties = json.loads(schema_text())["properties"]
    bare = {name for name, field in properties.items() if "description" not in field}
    groups = {
        name for name, field in StudyConfig.model_fields.items() if groups_of(field.annotation)
    }
    assert bare - groups <= {"sampler"}, "whose kinds explain it"
    assert properties["trials"]["default"] == 9
    assert "ladder" in properties["trials"]["description"]
