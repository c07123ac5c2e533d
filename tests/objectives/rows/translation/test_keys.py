"""Keys of `translation` in a study file: what is refused, and what a plan says of the data."""

from pathlib import Path
from typing import Any

import pytest

from fathom.search.study.file.errors import ConfigError, PlanError
from fathom.search.study.file.study_file import dump, parse, study_of
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import study_notes, vocab_size_of


def study(**objective: Any) -> StudyConfig:
    space = {"depth": [2, 8], "split": "1-1"}
    keys = {"study": "s", "budgets": ["100k"], "count": "non_embedding", "tokens": "200k"}
    return study_of({**keys, "space": space, "objective": {"name": "translation", **objective}})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"data": ["a"]}, ("objective.data", "a path, or the two paths [source, target]")),
        ({"data": ["a", "b", "c"]}, ("objective.data", "two paths")),
        ({"dev": 5}, ("objective.dev", "got 5")),
        ({"tokenizer": "bpe:200"}, ("objective.tokenizer", "at least 260 ids", "'bpe:200'")),
        ({"tokenizer": "chars"}, ("objective.tokenizer", "`words`", "bpe:4000")),
        ({"columns": [0, 1]}, ("objective.columns", "at least 1")),
        ({"vocabulary": "both"}, ("objective.vocabulary", "joint")),
        ({"beam": {"width": 0}}, ("objective.beam.width", "at least 1")),
    ],
)
def test_wrong_keys_are_refused_with_one_line(keys: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        study(**keys)

    said = str(refused.value)
    assert all(word in said for word in words), said


def test_two_files_survive_a_round_trip_and_are_named_together() -> None:
    config = study(data=["train.en", "train.tn"], dev=["dev.en", "dev.tn"], test="test.tsv")

    assert parse(dump(config)) == config
    assert config.objective.settings()["data"] == ("train.en", "train.tn")
    assert config.objective.place == "train.en and train.tn"


def test_subwords_are_the_default_but_for_the_generated_language() -> None:
    assert vocab_size_of(study(data="any.tsv").objective) == 4000
    assert vocab_size_of(study(generated={"pairs": 200, "nouns": 5, "verbs": 4}).objective) < 60


def test_files_that_do_not_belong_together_end_a_plan(tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a\nb\n")
    (tmp_path / "x.fr").write_text("A\n")

    with pytest.raises(PlanError, match="equally many lines, one translation in each"):
        vocab_size_of(
            study(data=[f"{tmp_path}/x.en", f"{tmp_path}/x.fr"], tokenizer="words").objective
        )


def test_a_plan_says_what_became_of_pairs_that_are_not_used_whole(tmp_path: Path) -> None:
    rows = [f"say {n}\tsage {n}" for n in range(40)]
    (tmp_path / "x.tsv").write_text("\n".join([*rows, "long " * 9 + "\tlang"]))
    (tmp_path / "test.tsv").write_text("say 3\tandere\nwhat a long line it is\twas\n")
    keys = {"data": f"{tmp_path}/x.tsv", "test": f"{tmp_path}/test.tsv", "tokenizer": "words"}

    (note, *_) = study_notes(study(**keys, context=5))

    assert note == (
        "35 training pairs, 4 of dev, 2 of test; 1 dropped because one side is held out; "
        "1 dropped because longer than 5 tokens; 1 of dev and test cut to 5 tokens"
    )
