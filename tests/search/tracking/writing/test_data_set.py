"""A study's data in MLflow's words: `search/tracking/writing/data_set.py`."""

import json
from pathlib import Path

from fathom.objectives.contract import data_digest_of
from fathom.objectives.prepare import prepare
from fathom.search.study.file.study_file import parse
from fathom.search.tracking.stores.messages import DataSet
from fathom.search.tracking.writing.data_set import data_set


def test_a_data_set_is_identified_by_its_content(tmp_path: Path) -> None:
    def described(text: str, **settings: object) -> DataSet:
        path = tmp_path / "corpus.txt"
        path.write_text(text * 500)
        config = parse(
            "study: demo\nbudgets: [8k]\n"
            f"objective: {{name: language, corpus: {path}, context: 32, eval_tokens: 64}}\n"
        )
        objective = prepare(config.objective.model_copy(update=settings))
        return data_set(objective, config.objective, data_digest_of(objective))

    first, again, other = described("one text. "), described("one text. "), described("another. ")
    assert first == again
    assert first.digest != other.digest
    assert first.name.endswith("corpus.txt")
    assert first.source_type == "local"
    assert json.loads(first.profile) == {
        "vocab_size": 256,
        "train_tokens": 4500,
        "validation_tokens": 500,
    }
