"""The JSON Schema of study files, with which editors complete, explain and check them."""

import json
from typing import Any

from fathom.search.study.keys.config import StudyConfig

FILE = "study.schema.json"
"""Name of the schema beside a study file."""
DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest draft of JSON Schema that all common editors support."""
BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Keywords of JSON Schema for those constraints of pydantic that it does not translate itself,
since a validator comes first."""
NUMBER_TEXT = r"^[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$"
"""Pattern of numbers that YAML 1.1 reads as text, such as 4e-3."""
NAMED = ("$defs", "properties", "patternProperties")
"""Keywords whose value maps names of the study to schemas."""
GIVEN = ("const", "default", "enum", "examples")
"""Keywords whose value is a value of the study, not a schema."""


def modeline(schema: str = FILE) -> str:
    """The first line of a study file, which tells editors where its schema is."""
    return f"# yaml-language-server: $schema={schema}"


def schema_text() -> str:
    """The schema as JSON text."""
    schema = _plain(StudyConfig.model_json_schema())
    whole = {"$schema": DRAFT, "title": "A study of Fathom", **schema}
    return json.dumps(whole, indent=1) + "\n"


def _plain(schema: Any) -> Any:
    """The schema with only the draft's keywords, and without titles that repeat the keys."""
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
