"""The published JSON Schema of `--json` output."""

import json

from fathom.search.contract.reply import VERSION, Reply

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def answer_schema_text() -> str:
    """The schema as JSON text."""
    schema = Reply.model_json_schema(mode="serialization")
    title = f"An answer of Fathom, version {VERSION}"
    return json.dumps({"$schema": DRAFT, **schema, "title": title}, indent=1) + "\n"
