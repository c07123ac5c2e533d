"""The JSON Schema of study files: it knows what the parser knows, as far as a schema can."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from fathom.search.study.file.errors import groups_of
from fathom.search.study.file.study_file import dump, load, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.json_schema import modeline, schema_text
from tests.support.places import ROOT
from tests.support.refusals import MINIMAL, REFUSALS, Refusal

COPY = ROOT / "configs" / "study.schema.json"


@pytest.fixture(scope="module")
def schema() -> Draft7Validator:
    text = json.loads(schema_text())
    Draft7Validator.check_schema(text)
    return Draft7Validator(text)


def test_the_copy_for_editors_equals_the_output_of_the_command() -> None:
    assert COPY.read_text() == schema_text(), "run `fathom schema --out configs/study.schema.json`"


def with_foreign_keys(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The values with a key that nobody knows, once in each group."""
    yield {**values, "foreign": 1}
    for key, below in values.items():
        if isinstance(below, Mapping) and ":" not in str(below.get("name", "")):
            yield from ({**values, key: changed} for changed in with_foreign_keys(below))


@pytest.mark.parametrize("folder", ["configs", "benchmarks", "examples"])
def test_every_study_names_the_schema_fits_it_and_is_read_back_from_what_is_saved_of_it(
    folder: str, schema: Draft7Validator
) -> None:
    studies = sorted((ROOT / folder).rglob("*.yaml"))
    assert studies
    for path in studies:
        text = path.read_text()
        values = yaml.safe_load(text)
        named = text.splitlines()[0].removeprefix(modeline(""))
        assert (path.parent / named).resolve() == COPY, path
        assert not list(schema.iter_errors(values)), path
        config = load(path)
        assert not list(schema.iter_errors(yaml.safe_load(dump(config)))), path
        assert parse(dump(config)) == config, path
        assert not any(schema.is_valid(mutated) for mutated in with_foreign_keys(values)), path


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


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda refused: refused.changes[:60])
def test_the_schema_refuses_what_the_parser_refuses_as_far_as_it_can(
    refused: Refusal, schema: Draft7Validator
) -> None:
    assert schema.is_valid(refused.values) is not refused.by_schema


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
