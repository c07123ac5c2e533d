"""The published schema of what programs read."""

import json

from fathom.models.spend import OTHER_COINS
from fathom.search.contract.reply import VERSION, PlannedBudget, Reply
from fathom.search.contract.schema import answer_schema_text
from fathom.search.study.keys.config import StudyConfig
from tests.support.command_line import here
from tests.support.contract import SCHEMA, valid


def test_the_published_schema_is_what_the_command_prints() -> None:
    again = "run `fathom schema --answer --out docs/answer.schema.json`"
    assert SCHEMA.read_text(encoding="utf-8") == answer_schema_text(), again
    assert here("schema", "--answer").stdout == answer_schema_text()


def test_every_key_is_described_or_named_by_its_words_and_always_there() -> None:
    schema = json.loads(answer_schema_text())
    assert VERSION in schema["title"]
    for name in (
        "StatedAnswer",
        "AskedQuestion",
        "BestDepth",
        "StatedVerdict",
        "NextTraining",
        "StatedCost",
    ):
        part = schema["$defs"][name]
        assert part["description"]
        assert set(part["required"]) == set(part["properties"])
        assert part["additionalProperties"] is False


def test_a_study_and_its_plan_have_the_key_of_every_coin() -> None:
    keys = {coin.key for coin in OTHER_COINS}
    assert keys <= StudyConfig.model_fields.keys() & PlannedBudget.model_fields.keys()


def test_a_reply_without_answers_is_of_the_schema() -> None:
    assert valid(json.loads(Reply(command="status").model_dump_json()))["answers"] == []
