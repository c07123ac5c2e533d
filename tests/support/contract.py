"""What programs read, checked by the published schema."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from fathom.search.contract.reply import Reply
from tests.support.places import ROOT

SCHEMA = ROOT / "docs" / "answer.schema.json"


@cache
def _validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def valid(values: Any) -> Any:
    """The values, which the schema allows."""
    problems = [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(values)]
    assert not problems, problems
    return values


def printed_values(reply: Reply) -> Any:
    """The values that a program reads of a reply."""
    return valid(json.loads(reply.model_dump_json()))
