"""The study file as JSON Schema, by which editors complete, explain and check it."""

import json
from typing import Any

from fathom.search.study.config import StudyConfig

FILE = "study.schema.json"
"""As it is called beside a study file."""
DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest that the editors in use all know."""
BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
"""Pydantic's words, which it leaves where a validator of ours comes first, in the schema's."""
NUMBER_TEXT = r"^[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$"
"""YAML 1.1 takes 4e-3 for text."""
NAMED = ("$defs", "properties", "patternProperties")
"""What lies below has names of the study's own for keys."""
GIVEN = ("const", "default", "enum", "examples")
"""What lies below are values of a study."""


def modeline(schema: str = FILE) -> str:
    """The first line of a study file, by which editors find its schema."""
    return f"# yaml-language-server: $schema={schema}"


def schema_text() -> str:
    """The schema as JSON."""
    schema = _plain(StudyConfig.model_json_schema())
    whole = {"$schema": DRAFT, "title": "A study of Fathom", **schema}
    return json.dumps(whole, indent=1) + "\n"


def _plain(schema: Any) -> Any:
    """In the draft's words, without the titles that only repeat the keys."""
    if isinstance(schema, list):
        return list(map(_plain, schema))
    return _plain_group(schema) if isinstance(schema, dict) else schema


def _plain_group(schema: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in NAMED:
            plain[key] = {name: _plain(below) for name, below in value.items()}
        elif key in GIVEN:
            plain[key] = value
        elif key == "description":
            plain[key] = " ".join(value.split())
        elif key == "prefixItems":  # of a pair, both alike
            plain["items"] = _plain(value[0])
        elif key != "title":
            plain[BOUNDS.get(key, key)] = _plain(value)
    if plain.get("type") == "number":
        plain |= {"type": ["number", "string"], "pattern": NUMBER_TEXT}
    if isinstance(plain.get("default"), dict):  # a group tells the defaults of its keys
        del plain["default"]
    return plain
