"""`fathom init`: a first study that its text and the machine can bear, and that explains itself."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.json_schema import FILE, modeline, schema_text
from fathom.search.study.planning.affordable import MOST_EPOCHS
from fathom.search.study.planning.draft import (
    Draft,
    Seen,
    choose,
    look,
    refuse_place,
    study_name,
    study_text,
    summary,
    write_study,
)
from fathom.search.study.planning.plan import plan_study, search_hours
from tests.support.command_line import assert_refused, here
from tests.support.objectives import prepared

WORDS = ("deep", "wide", "thé", "model", "layer", "of", "a", "the", "is", "not", "worth", "more")


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.search.study.hardware.machine.os.cpu_count", lambda: 2)
    monkeypatch.setattr("fathom.search.study.hardware.machine._gpus", lambda: ())


def a_text(n_words: int) -> str:
    return " ".join(random.Random(0).choices(WORDS, k=n_words)) + "\n"


SEEN = Seen(
    corpus="text.txt", tokenizer="bytes", size_bytes=10**7, characters=60, train_tokens=10**7,
    vocab_size=256,
)  # fmt: skip


def seen(train_tokens: int) -> Seen:
    return replace(SEEN, size_bytes=train_tokens, train_tokens=train_tokens)


def chosen(text: Seen, budgets: str | None = None, hours: float = 1) -> Draft:
    return choose(text, "mine", budgets=budgets, hours=hours)


def test_a_text_is_measured_as_its_objective_will_read_it(tmp_path: Path) -> None:
    text = a_text(4000)
    (tmp_path / "text.txt").write_text(text)
    corpus = str(tmp_path / "text.txt")
    for tokenizer in ("bytes", "chars", "bpe:280"):
        found = look(corpus, tokenizer)
        task = prepared("language", corpus=corpus, tokenizer=tokenizer, context=32, eval_tokens=64)
        assert found.size_bytes == len(text.encode())
        assert found.characters == len(set(text))
        assert found.vocab_size == task.vocab_size
        assert found.train_tokens == len(task.train)


@pytest.mark.parametrize("hours", [0.3, 1, 8, 100])
@pytest.mark.parametrize("tokens", [250_000, 10**6, 10**9])
def test_the_study_is_the_largest_that_text_and_hours_allow(tokens: int, hours: float) -> None:
    draft = chosen(seen(tokens), hours=hours)
    machine = this_machine(draft.config.resources, draft.config.train)
    plans = plan_study(draft.config, 256, machine)
    assert draft.hours == search_hours(plans, machine) <= hours
    assert draft.epochs == plans[-1].budget.tokens / tokens <= MOST_EPOCHS
    assert len(draft.config.budgets) == 3, "which a law needs"
    assert draft.config.tokens == 20 * draft.config.budgets[-1]
    larger = ",".join(str(2 * budget) for budget in draft.config.budgets)
    again = chosen(seen(tokens), larger, 1e9) if tokens > 10**6 else None
    assert again is None or again.hours > hours
    assert ("epochs of the text, over the limit of 4" in draft.reason) != (
        "would take" in draft.reason
    )


NO_NUMBER = "each of `--params` must be a"


@pytest.mark.parametrize(
    ("tokens", "budgets", "hours", "message"),
    [
        (10**5, None, 1, r"would be 8\.0 epochs of the text, over the limit of 4; give it more"),
        (10**7, None, 0.01, r"would take \d+ min, over your limit of 36 s; allow more `--hours`"),
        (10**12, "1B", 1, "no study is small enough: 1B for 5B tokens would take"),
        (10**7, "100", 1, r"budget 100 \(.*at no depth"),
        *((10**7, budgets, 1, NO_NUMBER) for budgets in ("", "x", "1M,,3M", "-3")),
    ],
)
def test_what_no_study_can_meet_is_refused_with_the_reason(
    tokens: int, budgets: str | None, hours: float, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        chosen(seen(tokens), budgets, hours)


def test_a_summary_says_what_was_chosen_and_short_hours_are_met_without_a_bracket_of_rates() -> (
    None
):
    default = chosen(SEEN)
    lines = summary(SEEN, default, Path("my.yaml")).splitlines()
    assert "10,000,000 bytes of text with 60 different characters" in lines[0]
    assert "25k, 50k, 100k for 2M tokens each: 0.2 epochs of the text" in lines[1]
    assert [line[10:] for line in lines[-2:]] == ["fathom plan my.yaml", "fathom run my.yaml"]
    short = chosen(SEEN, hours=0.17)
    shorter = chosen(SEEN, hours=0.14)

    assert not default.confirm
    assert "confirm" not in study_text(SEEN, default)
    assert short.confirm == {"rates": [1]}
    assert shorter.config.confirm.rates == (1.0,)
    assert shorter.config.confirm.depths == 5
    line = "confirm: {depths: 5, rates: [1]}  # to fit the hours; `fathom check` says"
    assert line in study_text(SEEN, shorter)
    assert f"Cheaper   {line}" in summary(SEEN, shorter, Path("my.yaml"))


def test_budgets_that_are_named_get_as_many_tokens_as_there_is_time_for() -> None:
    assert chosen(SEEN, "200k, 100k", hours=9).tokens_per_parameter == 20
    draft = chosen(SEEN, "100k,200k", hours=1.4)
    assert draft.config.budgets == (100_000, 200_000)
    assert draft.tokens_per_parameter == 10
    assert draft.reason == (
        "next larger option: 100k, 200k for 4M tokens would take 1.9 h, over your limit of 84 min"
    )


@pytest.mark.parametrize("corpus", ["text.txt", "a #b: c.txt", "it's [1].txt", "é \n\t.txt", "1e3"])
def test_the_file_says_what_was_chosen_in_lines_that_a_person_reads(
    tmp_path: Path, corpus: str
) -> None:
    named = replace(SEEN, corpus=corpus)
    draft = chosen(named, "123456, 200k", hours=9)
    text = study_text(named, draft)
    (tmp_path / "x.yaml").write_text(text)
    assert load(tmp_path / "x.yaml") == draft.config
    assert text.splitlines()[0] == modeline()
    assert Draft7Validator(json.loads(schema_text())).is_valid(yaml.safe_load(text))
    assert max(map(len, text.splitlines())) <= 100
    assert "tokens: 4M" in text
    assert "# 0.4 epochs of the text (no more than 4); 20 a parameter at 200k" in text
    assert all("#" in line for line in text.splitlines() if line not in ("", "objective:"))


def test_no_file_is_replaced_without_force(tmp_path: Path) -> None:
    study, schema = tmp_path / "my.yaml", tmp_path / FILE
    write_study(study, "study: mine\n")
    refuse_place(tmp_path / "other.yaml", "stdlib", force=False)
    with pytest.raises(ConfigError, match=r"my\.yaml exists already; `--force` replaces"):
        refuse_place(study, "stdlib", force=False)
    refuse_place(study, "stdlib", force=True)
    schema.write_text("{}")
    with pytest.raises(ConfigError, match=r"schema\.json exists already"):
        refuse_place(tmp_path / "other.yaml", "stdlib", force=False)
    with pytest.raises(ConfigError, match="exists already"):
        refuse_place(tmp_path, "stdlib", force=True)
    with pytest.raises(ConfigError, match="must be a folder that exists"):
        refuse_place(tmp_path / "none" / "my.yaml", "stdlib", force=True)
    schema.unlink()
    refuse_place(tmp_path / "other.yaml", str(tmp_path / "text.txt"), force=False)
    with pytest.raises(ConfigError, match="would be a part of the corpus"):
        refuse_place(tmp_path / "other.yaml", str(tmp_path), force=True)


@pytest.mark.parametrize(
    ("file", "name"),
    [("my.yaml", "my"), ("a/b c.yaml", "b-c"), (".x.yaml", "x"), ("ж.yaml", "study")],
)
def test_a_file_names_its_study(file: str, name: str) -> None:
    assert study_name(Path(file)) == name


def test_a_drafted_study_can_be_planned_unchanged(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(a_text(100_000))
    done = here("init", "my.yaml", "--data", "text.txt", "--tokenizer", "chars", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    planned = here(*done.stdout.splitlines()[-2].split()[-2:], cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.yaml", FILE, "text.txt"]


@pytest.mark.parametrize("corpus", ["small.txt", "empty", "binary", "none.txt"])
def test_an_unusable_corpus_is_one_line_and_nothing_is_written(tmp_path: Path, corpus: str) -> None:
    (tmp_path / "small.txt").write_text(a_text(100))
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\1\2")
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.iterdir())
    assert_refused(here("init", "my.yaml", "--data", corpus, cwd=tmp_path))
    assert sorted(tmp_path.iterdir()) == before


def test_a_draft_on_tokens_that_are_cut_already_names_them_and_their_vocabulary(
    tmp_path: Path,
) -> None:
    (tmp_path / "ids.bin").write_bytes(b"\1\0\2\0" * 1_000_000)
    seen = look(str(tmp_path / "ids.bin"), "512")
    assert (seen.train_tokens, seen.vocab_size) == (1_980_000, 512)
    assert "1,980,000 tokens to train on, of 512 ids" in seen.summary
    chosen = choose(seen, "mine", budgets=None, hours=10)
    assert chosen.epochs <= 4
    settings = chosen.config.objective.settings()
    assert (settings["train"], settings["vocabulary"]) == (str(tmp_path / "ids.bin"), 512)
    (tmp_path / "mine.yaml").write_text(study_text(seen, chosen))
    assert load(tmp_path / "mine.yaml") == chosen.config
    assert look(str(tmp_path / "ids.bin"), "bytes").vocab_size == 3, "the largest id and one"


def test_a_folder_with_splits_by_name_is_drafted_without_what_is_held_out(tmp_path: Path) -> None:
    texts, ids = tmp_path / "texts", tmp_path / "ids"
    for folder in (texts, ids):
        folder.mkdir()
    (texts / "train.txt").write_text(a_text(9000))
    (texts / "valid.txt").write_text("other words\n" * 100)
    drawn = random.Random(0).choices(range(50), k=9000)
    for name, part in (("train.bin", drawn[:8000]), ("val.bin", drawn[8000:])):
        (ids / name).write_bytes(b"".join(one.to_bytes(2, "little") for one in part))
    (ids / "meta.pkl").write_bytes(b"\x80\x04N.")
    text = look(str(texts), "bytes")
    assert text.train_tokens == len(a_text(9000).encode())
    assert text.summary.endswith("tokens to train on; held out by name: valid.txt")
    tokens = look(str(ids), "50")
    assert tokens.train_tokens == 8000
    assert tokens.summary == "8,000 tokens to train on, of 50 ids; held out by name: val.bin"
