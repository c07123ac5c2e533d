"""The place of a mistake: lines of a study file, and `--set`."""

from pathlib import Path

import pytest

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load, placed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from tests.support.dry_run import MACHINE

GOOD = """\
# A comment.
study: good
objective: language
budgets:
  - 20k
  - 40k
train:
  batch_size: 8
space: {depth: [1, 6]}
"""


def loaded(folder: Path, text: str = GOOD, *overrides: str) -> StudyConfig:
    (folder / "x.yaml").write_text(text)
    return load(folder / "x.yaml", overrides)


def refusals(folder: Path, text: str = GOOD, *overrides: str) -> list[str]:
    """The lines of the refusal, without the folder."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, *overrides)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("batch_size", "batch_sise"), "x.yaml:8: unknown key `train.batch_sise`; did you mean"),
        (("space:", "spaces:"), "x.yaml:9: unknown key `spaces`; did you mean `space`?"),
        (("size: 8", "size: big"), "x.yaml:8: `train.batch_size` must be a whole number"),
        (("[1, 6]", "[6, 1]"), "x.yaml:9: `space.depth` must be [low, high]"),
        (("- 40k", "- large"), "x.yaml:6: `budgets` must be a positive number"),
        (("- 40k", "- 10k"), "x.yaml:4: `budgets` must ascend"),
        (("study: good\n", ""), "x.yaml:2: `study` is required; for example my-study"),
        (("language", "{context: 8}"), "x.yaml:3: `objective.name` is required"),
        (("language", "hopp"), "x.yaml:3: `objective.name` must be one of"),
        (("language", "{name: blocks, test_lengths: [[4, 9], 5]}"), "x.yaml:3: `objective.test_"),
        (("size: 8", "size: 8\n  warmup: 0.9"), "x.yaml:9: `train.warmup` and `train.cooldown`"),
        (("train:", "train: 5\nmodel:"), "x.yaml:7: `train` must be a group of keys"),
        (("budgets:", "study: again\nbudgets:"), "x.yaml:4: not a plain YAML file: the key"),
        (("good", "[good"), "x.yaml:3: not a plain YAML file"),
    ],
)
def test_a_mistake_is_reported_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: str
) -> None:
    told = refusals(tmp_path, GOOD.replace(*change))
    assert told[0].startswith(line), told


def test_several_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = GOOD.replace("budgets", "budget").replace("size: 8", "size: 0").replace("[1,", "[0,")
    told = refusals(tmp_path, text + "trials: many\n")
    assert [line.partition(": ")[0] for line in told] == [f"x.yaml:{n}" for n in (4, 8, 9, 10)]
    assert not any("required" in line for line in told), "the misspelt `budgets` is told once"


def test_only_the_first_mistakes_of_a_file_are_listed(tmp_path: Path) -> None:
    assert len(refusals(tmp_path, GOOD.replace("20k", "a").replace("40k", "b"))) == 1, "one key"
    told = refusals(tmp_path, GOOD + "".join(f"key{n}: 1\n" for n in range(20)))
    assert len(told) == 9
    assert told[-1] == "x.yaml: 12 more mistakes"


def test_a_folder_is_no_study_and_its_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("study: one")
    with pytest.raises(ConfigError, match=f"name the file in it, {tmp_path}/config.yaml"):
        load(tmp_path)


def test_set_values_override_the_file_and_its_mistakes(tmp_path: Path) -> None:
    changes = ("train.batch_size=16", "trials=3", "objective.context=64", "budgets=[8k, 1M]")
    config = loaded(tmp_path, GOOD, *changes, "train.batch_size=32", "model.gated=true")
    assert (config.train.batch_size, config.trials) == (32, 3)
    assert (config.objective.name, config.objective.context) == ("language", 64)
    assert config.budgets == (8_000, 1_000_000)
    assert config.model.gated
    assert config.space.depth == (1, 6)
    assert config == loaded(tmp_path, GOOD, *changes, "train.batch_size=32", "model={gated: true}")
    assert loaded(tmp_path, GOOD.replace("size: 8", "size: big"), "train.batch_size=4")
    told = refusals(tmp_path, GOOD.replace("[1, 6]", "[6, 1]"), "trials=0")
    assert [line.partition(": ")[0] for line in told] == ["--set trials=0", "x.yaml:9"]
    assert refusals(tmp_path, "", "trials=3")[0].startswith("x.yaml: a study file must be a map")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("trials=many", "--set trials=many: `trials` must be a whole number such as 9"),
        ("trails=3", "--set trails=3: unknown key `trails`; did you mean `trials`?"),
        ("trian.eps=1", "--set trian.eps=1: unknown key `trian`; did you mean `train`?"),
        ("seed.x=3", "--set seed.x=3: `seed` must be a whole number such as 0, got {'x': 3}"),
        ("train.warmup=.9", "--set train.warmup=.9: `train.warmup` and `train.cooldown` must add"),
        ("study=[", "--set study=[: not a plain YAML file"),
        ("trials", "`--set` must be KEY=VALUE, got 'trials'; for example train.batch_size=8"),
        ("=3", "`--set` must be KEY=VALUE"),
        ("train..eps=3", "`--set` must be KEY=VALUE"),
        ("budgets.0=3", "--set budgets.0=3: `budgets` must be a group of keys, got ['20k', '40k']"),
    ],
)
def test_a_mistake_in_a_set_value_names_it_as_the_place(
    tmp_path: Path, change: str, line: str
) -> None:
    told = refusals(tmp_path, GOOD, change)
    assert len(told) == 1
    assert told[0].startswith(line)


ODD_BATCH = GOOD.replace("size: 8", "size: 9") + "resources: {gpus_per_trial: 2}\n"
NO_TEXT = GOOD.replace("language", "{name: language, corpus: nowhere.txt}")
NO_SHAPES = "budget 200 (total parameters, within 0.5%) has shapes at no"


@pytest.mark.parametrize(
    ("text", "overrides", "start"),
    [
        (GOOD.replace("- 20k", "- 200"), (), f"x.yaml:4: {NO_SHAPES}"),
        (GOOD, ("budgets=[200]",), f"--set budgets=[200]: {NO_SHAPES}"),
        (NO_TEXT, (), "x.yaml:3: corpus must be"),
        (ODD_BATCH, (), "x.yaml:8: `train.batch_size` must be a multiple of `resources.gpus_per_t"),
    ],
)
def test_a_mistake_that_planning_finds_is_reported_with_its_place(
    tmp_path: Path, text: str, overrides: tuple[str, ...], start: str
) -> None:
    config = loaded(tmp_path, text, *overrides)
    with pytest.raises(ConfigError) as caught, placed(tmp_path / "x.yaml", overrides):
        plan_study(config, vocab_size_of(config.objective), MACHINE)
    (line,) = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    assert line.startswith(start)
