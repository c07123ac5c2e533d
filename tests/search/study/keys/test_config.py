"""Study files: the accepted ones, and the error messages for the others."""

import os
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fathom.models.options import Positions
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Count
from fathom.search.study.file.errors import ConfigError, groups_of
from fathom.search.study.keys.config import StudyConfig, dump, load, parse
from fathom.search.study.keys.groups import ResourcesConfig, Sampler
from tests.support.places import ROOT

MINIMAL = {"study": "s", "objective": "language", "budgets": ["1M"]}
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
JARGON = re.compile(
    r"Input should|valid (tuple|string|dict|list)|pattern|pydantic|type=|codec|dictionary"
    r"|Value error|NoneType|after validation|instance of|constrained|extra_forbidden|Traceback",
    re.IGNORECASE,
)


PRETRAINED = {"name": "transduction"}
"""An objective with an optional group of keys."""


def study(**changes: object) -> str:
    return yaml.safe_dump(MINIMAL | changes)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def assert_readable(message: str) -> None:
    assert "\n" not in message
    assert len(message) < 400
    assert not JARGON.search(message), message


def test_every_key_has_a_default_but_three() -> None:
    required = [name for name, field in StudyConfig.model_fields.items() if field.is_required()]
    assert required == ["study", "objective", "budgets"]
    config = parse(study())
    assert config.budgets == (1_000_000,)
    assert (config.count, config.sampler) == (Count.TOTAL, Sampler.CURVE)
    assert config.objective.name == "language"


def groups(model: type[BaseModel]) -> list[type[BaseModel]]:
    inner = [one for field in model.model_fields.values() for one in groups_of(field.annotation)]
    return [model, *(deeper for one in inner for deeper in groups(one))]


WITHOUT_DEFAULT = {
    "TokensConfig": {"name", "train"},
    "ExternalConfig": {"name", "vocabulary", "context"},
}
"""Group of an objective whose data only the user knows -> its keys without a default."""


@pytest.mark.parametrize("group", groups(StudyConfig)[1:])
def test_every_key_of_a_group_has_a_default_but_what_names_the_data(group: type[BaseModel]) -> None:
    required = {name for name, field in group.model_fields.items() if field.is_required()}
    assert required <= WITHOUT_DEFAULT.get(group.__name__, {"name"})


def test_the_smallest_rates_of_a_file_are_numbers_however_yaml_reads_them() -> None:
    # YAML 1.1 takes 4e-3 for text, for it has no point.
    config = parse(study() + "train: {learning_rate: 4e-3, eps: 1e-9, weight_decay: 1e-1}")
    assert (config.train.learning_rate, config.train.eps) == (4e-3, 1e-9)
    assert config.train.weight_decay == 0.1


def test_settings_reach_the_values_that_the_rest_uses() -> None:
    config = parse(
        study(
            objective={"name": "language", "corpus": "x.txt", "context": 32, "eval_tokens": "4k"},
            model={"positions": "none", "parametrization": {"scheme": "mup", "base_width": 7}},
        )
    )
    assert config.model.positions is Positions.NONE
    assert config.model.parametrization.build() == Parametrization(
        scheme=Scheme.MUP, base_width=7, base_depth=2, base_head_dim=64, init_std=0.02
    )
    assert config.objective.settings() == {
        "corpus": "x.txt",
        "tokenizer": "bytes",
        "context": 32,
        "eval_tokens": 4000,
        "validation_fraction": 0.1,
    }


EVERY_OBJECTIVE = ["language", "transduction", "classification", "hop", "induction"]
EVERY_OBJECTIVE += ["connectivity", "blocks", "my_package.my_task:MyObjective"]


@pytest.mark.parametrize("name", EVERY_OBJECTIVE)
def test_the_name_of_an_objective_is_enough_and_survives_a_round_trip(name: str) -> None:
    config = parse(study(objective=name))
    assert parse(study(objective={"name": name})) == config
    assert parse(dump(config)) == config
    assert config.objective.name == name
    assert config.objective.context > 1
    assert "name" not in config.objective.settings()


def test_keys_of_an_own_objective_are_its_own() -> None:
    keys = {"length": 8, "rates": [1, 2], "deep": {"er": True}}
    config = parse(study(objective={"name": "a.b:C", "context": 9, **keys}))
    assert config.objective.settings() == {"context": 9, **keys}
    assert parse(dump(config)) == config


def test_a_probe_is_no_larger_than_asked_where_the_task_allows_it() -> None:
    def probing(**objective: Any) -> dict[str, Any]:
        keys = parse(study(objective=objective)).objective
        return keys.for_probe(context=128, eval_tokens=4096).settings()

    assert probing(name="language")["context"] == 128
    assert probing(name="language")["eval_tokens"] == 4096
    assert probing(name="language", context=64, eval_tokens=100)["eval_tokens"] == 100
    assert probing(name="transduction")["eval_examples"] == 16
    assert probing(name="transduction")["context"] == 256
    assert probing(name="hop")["eval_examples"] == 16
    assert probing(name="blocks", eval_examples=3)["eval_examples"] == 3
    assert probing(name="a.b:C", eval_examples=300)["eval_examples"] == 300


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"train": {"learning_rate": 10}}, "`train.learning_rate` must be at most 1, got 10"),
        (
            {"train": {"learning_rate": 0.5}, "confirm": {"rates": [1, 4]}},
            r"`train.learning_rate` times the largest of `confirm.rates` .* got 0.5 times 4",
        ),
        (
            {"train": {"weight_decay": 5000}},
            r"`train.weight_decay` must be below 1 / learning rate",
        ),
        (
            {"objective": {"name": "language", "eval_tokens": 10}},
            "must be at least `context`, got 10",
        ),
    ],
)
def test_values_that_cannot_train_are_refused(keys: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse(study(**keys))


def test_values_never_change() -> None:
    config = parse(study())
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        config.space.depth = (2, 3)  # type: ignore[misc]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_shipped_studies_load_and_survive_a_round_trip(path: Path) -> None:
    config = load(path)
    assert parse(dump(config)) == config


def test_a_study_far_from_the_defaults_survives_a_round_trip() -> None:
    config = parse(
        study(
            budgets=["300k", 10**12 - 1],
            count="non_embedding",
            tokens_per_parameter=1 / 3,
            space={"depth": [2, 3], "ff_ratio": [0.1, 7.7], "n_heads": 3, "head_dim": 6},
            sampler="ladder",
            stopping={"enabled": False},
            confirm={"rates": [1, 1 / 7]},
            model={
                "attention": {"queries_per_key": 3, "qk_norm": True},
                "feed_forward": {"activation": "relu2"},
                "tied": False,
                "positions": "learned",
                "residual": "admin_closed",
                "norm": "rms",
                "biases": True,
                "embedding_rank": 24,
                "smeared_keys": True,
                "looped": True,
                "parametrization": {"scheme": "mup"},
            },
            train={"batch_size": 3, "eps": 1e-20, "precision": "bfloat16", "betas": [0, 0.999]},
            resources={"gpus_per_trial": 0.25, "max_concurrent_trials": 7},
            tracking={"uri": "sqlite:///a b.db"},
            seed=2**31 - 1,
        )
    )
    assert parse(dump(config)) == config
    assert config != parse(study())


BROKEN: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "heads that are no groups": (
        {"space": {"n_heads": 6}, "model": {"attention": {"queries_per_key": 4}}},
        ("`n_heads` must be a multiple of `queries_per_key`, got 6 and 4; use 4 heads",),
    ),
    "a gate and an activation": (
        {"model": {"gated": True, "feed_forward": {"activation": "relu2"}}},
        (
            "`model.feed_forward.activation: relu2` is for branches without gates",
            "drop it or `gated",
        ),
    ),
    "a group that is a number": ({"space": 5}, ("`space`", "depth, ff_ratio", "got 5")),
    "a group that is empty": ({"train": None}, ("`train`", "learning_rate")),
    "a range that is a number": (
        {"space": {"depth": 5}},
        ("`space.depth` must be a list of whole numbers such as [1, 64], got 5",),
    ),
    "a range of one": ({"space": {"depth": [1]}}, ("`space.depth`", "[1, 64]", "got [1]")),
    "depths in disorder": (
        {"space": {"depth": [4, 16, 1]}},
        ("`space.depth` must ascend without repeats", "[4, 16, 1]", "use [1, 4, 16]"),
    ),
    "a depth twice": ({"space": {"depth": [1, 4, 4]}}, ("`space.depth`", "use [1, 4]")),
    "a range of three": ({"space": {"ff_ratio": [1, 2, 3]}}, ("`space.ff_ratio`", "[1, 2, 3]")),
    "a range of words": ({"space": {"depth": ["a", "b"]}}, ("`space.depth`", "'a'")),
    "a range upside down": (
        {"space": {"depth": [4, 1]}},
        ("`space.depth` must be [low, high]", "[4, 1]", "swap them"),
    ),
    "a depth of nothing": (
        {"space": {"depth": [0, 4]}},
        ("`space.depth` must be at least 1, got 0",),
    ),
    "an endless ratio": ({"space": {"ff_ratio": [1, float("inf")]}}, ("`space.ff_ratio`", "inf")),
    "an unknown residual": (
        {"model": {"residual": "sandwich"}},
        ("`model.residual`", "`pre`, `post`, `admin`, `admin_closed`, `deepnorm`, `none`"),
    ),
    "post-norm under CompleteP": (
        {"model": {"residual": "post"}},
        (
            "`model.parametrization.scheme: completep` scales pre-norm residuals",
            "`residual: post`",
            "use `parametrization: {scheme: standard}` or `mup`",
        ),
    ),
    "layers profiled that are one": (
        {
            "model": {
                "residual": "admin",
                "looped": True,
                "parametrization": {"scheme": "standard"},
            }
        },
        ("`model.residual: admin` profiles every layer", "use `residual: admin_closed`"),
    ),
    "an embedding of no rank": (
        {"model": {"embedding_rank": 0}},
        ("`model.embedding_rank` must be at least 1, got 0",),
    ),
    "a next token that is seen": (
        {"model": {"bidirectional": True}},
        ("`model.bidirectional` must be false with `objective: language`", "got true; drop it"),
    ),
    "an odd head with rotary positions": (
        {"space": {"head_dim": 3}},
        ("`space.head_dim` must be even", "got 3", "use 4"),
    ),
    "half a head": ({"space": {"n_heads": 1.5}}, ("`space.n_heads`", "whole number", "1.5")),
    "an unknown sampler": ({"sampler": "tpee"}, ("`sampler`", "`curve`, `tpe`, `gp`", "'tpee'")),
    "an unknown count": ({"count": "all"}, ("`count`", "`total`, `non_embedding`", "'all'")),
    "an unknown scheme": (
        {"model": {"parametrization": {"scheme": "mu"}}},
        ("`model.parametrization.scheme`", "`completep`", "'mu'"),
    ),
    "no trials": ({"trials": 0}, ("`trials` must be at least 1, got 0",)),
    "part of a trial": ({"trials": 2.5}, ("`trials` must be a whole number such as 9, got 2.5",)),
    "a switch for a number": ({"trials": True}, ("`trials` must be a number, got true",)),
    "a switch in a range": ({"space": {"depth": [True, 4]}}, ("`space.depth`", "got true")),
    "a switch for a rate": ({"train": {"learning_rate": True}}, ("`train.learning_rate`", "true")),
    "a number for a switch": (
        {"model": {"tied": 5}},
        ("`model.tied` must be true or false, got 5",),
    ),
    "a wide tolerance": ({"tolerance": 0.5}, ("`tolerance` must be at most 0.05, got 0.5",)),
    "a tolerance that is no number": (
        {"tolerance": float("nan")},
        ("`tolerance`", "finite", "nan"),
    ),
    "an endless decay": (
        {"train": {"weight_decay": float("inf")}},
        ("`train.weight_decay`", "inf"),
    ),
    "an endless eta": ({"stopping": {"eta": float("inf")}}, ("`stopping.eta`", "inf")),
    "negative tokens": ({"tokens": -5}, ("`tokens` must be a positive number such as", "-5")),
    "tokens that are no number": ({"tokens": float("nan")}, ("`tokens`", "nan")),
    "two horizons": (
        {"tokens": 5, "tokens_per_parameter": 2},
        ("`tokens` and `tokens_per_parameter` contradict", "5 and 2.0", "keep one"),
    ),
    "a batch of nothing": (
        {"train": {"batch_size": 0}},
        ("`train.batch_size` must be at least 1",),
    ),
    "a batch in words": (
        {"train": {"batch_size": "big"}},
        ("`train.batch_size` must be a whole number or `auto`, got 'big'",),
    ),
    "a rate in words": ({"train": {"learning_rate": "fast"}}, ("`train.learning_rate`", "'fast'")),
    "a beta of one": ({"train": {"betas": [0.9, 1]}}, ("`train.betas` must be below 1, got 1",)),
    "no time at the peak rate": (
        {"train": {"warmup": 0.6, "cooldown": 0.5}},
        ("`train.warmup` and `train.cooldown`", "0.6 + 0.5"),
    ),
    "a rung in the cool-down": (
        {"stopping": {"first_rung": 0.9}},
        ("`stopping.first_rung`", "cool-down", "0.8", "0.9", "lower"),
    ),
    "an unknown precision": ({"train": {"precision": "fp8"}}, ("`train.precision`", "'fp8'")),
    "rates without one": ({"confirm": {"rates": [0.5]}}, ("`confirm.rates`", "contain 1", "[0.5]")),
    "a rate twice": ({"confirm": {"rates": [1, 2, 2]}}, ("`confirm.rates`", "no value twice")),
    "one and a half GPUs a trial": (
        {"resources": {"gpus_per_trial": 1.5}},
        ("`resources.gpus_per_trial`", "whole", "1.5"),
    ),
    "a sliver of a GPU": (
        {"resources": {"gpus_per_trial": 5e-324}},
        ("`resources.gpus_per_trial`", "0.01"),
    ),
    "a seed below zero": ({"seed": -1}, ("`seed` must be at least 0, got -1",)),
    "a seed too large": ({"seed": 2**31}, ("`seed` must be below 2147483648",)),
    "no budget": ({"budgets": []}, ("`budgets` must be a list", "[300k, 1M]", "got []")),
    "too many": ({"budgets": list(range(1, 99))}, ("`budgets` must be at most 50 values, got",)),
    "a lone budget": ({"budgets": "1M"}, ("`budgets` must be a list", "[300k, 1M]", "'1M'")),
    "budgets descending": ({"budgets": ["3M", "1M"]}, ("`budgets` must ascend", "3000000")),
    "a budget twice": ({"budgets": ["1M", "1000k"]}, ("`budgets` must ascend without repeats",)),
    "part of a parameter": ({"budgets": [1.5]}, ("`budgets` must be a whole number, got 1.5",)),
    "a switch for a budget": ({"budgets": [True]}, ("`budgets`", "True")),
    "an enormous budget": ({"budgets": ["9e30"]}, ("`budgets`", "between 1 and 1e18", "9e30")),
    "a name with a path": ({"study": "../x"}, ("`study`", "letters, digits", "'../x'")),
    "a name with a slash": ({"study": "a/b"}, ("`study`", "'a/b'")),
    "a name with a backslash": ({"study": "a\\b"}, ("`study`",)),
    "a name that is a number": ({"study": 5}, ("`study` must be text such as my-study, got 5",)),
    "a name too long": ({"study": "x" * 65}, ("`study` must be 1 to 64",)),
    "an unknown objective": (
        {"objective": "vision"},
        ("`objective.name`", "`language`", "'vision'"),
    ),
    "an objective without a name": (
        {"objective": {"context": 8}},
        ("`objective.name` is required",),
    ),
    "an objective that is a number": (
        {"objective": 5},
        ("`objective`", "{name: language}", "got 5"),
    ),
    "an unknown tokenizer": (
        {"objective": {"name": "language", "tokenizer": "words"}},
        ("`objective.tokenizer` must be `bytes`, `chars` or `bpe:N`", "'words'"),
    ),
    "no context": (
        {"objective": {"name": "language", "context": 0}},
        ("`objective.context` must be at least 1, got 0",),
    ),
    "no text to train on": (
        {"objective": {"name": "language", "validation_fraction": 0.9}},
        ("`objective.validation_fraction` must be at most 0.5, got 0.9",),
    ),
    "an objective that is misspelt": (
        {"objective": "hopp"},
        ("`objective.name`", "`connectivity`", "my_package.my_task:MyObjective", "mean `hop`"),
    ),
    "an objective called by a number": (
        {"objective": {"name": 5}},
        ("`objective.name` must be one of", "got 5"),
    ),
    "an own objective that is no place": (
        {"objective": "my task:Mine"},
        ("`objective.name`", "`my_package.my_task:MyObjective`", "'my task:Mine'"),
    ),
    "an own key that no file gives back": (
        {"objective": {"name": "a.b:C", "deep": [{"since": date(2024, 1, 31)}]}},
        ("`objective.deep` must be text, a number", "2024, 1, 31", "in quotes"),
    ),
    "an own key that is no number": (
        {"objective": {"name": "a.b:C", "rate": float("nan")}},
        ("`objective.rate` must be text, a number", "nan"),
    ),
    "a list of objectives": ({"objective": ["hop"]}, ("`objective` must be a group", "['hop']")),
    "a split with a space": (
        {"objective": {"name": "transduction", "generalisation": {"a b": "x"}}},
        ("`objective.generalisation` must be names", "'a b'"),
    ),
    "splits that are a number": (
        {"objective": {"name": "transduction", "generalisation": 5}},
        ("`objective.generalisation` must be a group of names", "got 5"),
    ),
    "lengths that are no pair": (
        {"objective": {"name": "blocks", "test_lengths": [5]}},
        ("`objective.test_lengths` must be a list of pairs", "[[41, 60], [61, 80]]", "got 5"),
    ),
    "strings too short for their blocks": (
        {"objective": {"name": "blocks", "blocks": 9, "test_lengths": [[5, 9]]}},
        ("`objective.train_lengths`", "9 blocks", "[5, 9]"),
    ),
    "lengths upside down": (
        {"objective": {"name": "induction", "gap": [4, 1]}},
        ("`objective.gap` must be [low, high]", "[4, 1]", "swap"),
    ),
    "a block of one": (
        {"objective": {"name": "induction", "block": [1, 4]}},
        ("`objective.block` must begin at 2",),
    ),
    "more tokens in a block than there are": (
        {"objective": {"name": "induction", "symbols": 8}},
        ("`objective.symbols` must exceed the longest block", "8 and 16", "use 17"),
    ),
    "no room for two copies": (
        {"objective": {"name": "induction", "context": 47}},
        ("`objective.context` must hold two copies", "48 tokens", "got 47"),
    ),
    "the same lengths twice": (
        {"objective": {"name": "blocks", "test_lengths": [[20, 40]]}},
        ("`objective.test_lengths` must all differ",),
    ),
    "longer expressions than fit": (
        {"objective": {"name": "classification", "listops": {"min_length": 300}}},
        ("`objective.listops.min_length` must be at most `context`", "300 and 256"),
    ),
    "text before rows, and rungs": (
        {"objective": {"name": "transduction", "pretraining": {"corpus": "stdlib"}}},
        ("`objective.pretraining` can't be combined with stopping", "stopping: {enabled: false}"),
    ),
    "trials that shared a model": (
        {"resources": {"replicas": 3}},
        ("`resources.replicas` is no key any more", "got 3", "drop it", "gpus_per_trial: 0.25"),
    ),
    "a long value": ({"count": "x" * 5000}, ("`count`", "x...")),
}


@pytest.mark.parametrize(("changes", "words"), BROKEN.values(), ids=BROKEN)
def test_a_wrong_value_is_answered_with_key_rule_and_value(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    message = refusal(study(**changes))
    for word in words:
        assert word in message
    assert_readable(message)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"budget": ["1M"]}, "unknown key `budget`; did you mean `budgets`?"),
        ({"non-embedding": 1}, "unknown key `non-embedding`; did you mean `count: non_embedding`?"),
        ({"head-dim": 16}, "unknown key `head-dim`; did you mean `space.head_dim`?"),
        ({"count": "non-embedding"}, "got 'non-embedding'; did you mean `non_embedding`?"),
        ({"train": {"batch_size": "autoo"}}, "got 'autoo'; did you mean `auto`?"),
        ({"spase": {}}, "unknown key `spase`; did you mean `space`?"),
        ({"space": {"dept": [1, 2]}}, "unknown key `space.dept`; did you mean `space.depth`?"),
        ({"depth": [1, 2]}, "unknown key `depth`; did you mean `space.depth`?"),
        ({"model": {"parametrization": {"width": 3}}}, "`model.parametrization.base_width`?"),
        ({"stopping": {"zzz": 1}}, "known here: enabled, first_rung, eta, median_of"),
        ({"objective": {"name": "hop", "symbol": 3}}, "did you mean `objective.symbols`?"),
        ({"objective": {"name": "hop", "diameter": 3}}, "known here: name, eval_examples"),
        ({"objective": {"name": "language", "diameter": 3}}, "known here: name, corpus, tok"),
        ({"objective": {"name": "connectivity", "context": 3}}, "name, eval_examples, diam"),
        (
            {"objective": PRETRAINED | {"pretraining": {"tokns": 3}}},
            "`objective.pretraining.tokens`",
        ),
        ({"objective": PRETRAINED | {"pretraining": {"zzz": 3}}}, "known here: corpus, words, tok"),
        ({"hops": 3}, "unknown key `hops`; did you mean `objective.hops`?"),
        ({7: 1}, "unknown key `7`; known here: study, objective, budgets"),
        ({"two\nlines": 1}, "unknown key `two lines`; known here"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_one(changes: dict[str, Any], hint: str) -> None:
    message = refusal(yaml.safe_dump(MINIMAL | changes))
    assert hint in message
    assert "\n" not in message


@pytest.mark.parametrize("key", MINIMAL)
def test_a_missing_key_is_named_with_an_example_that_works(key: str) -> None:
    rest = {name: value for name, value in MINIMAL.items() if name != key}
    message = refusal(yaml.safe_dump(rest))
    assert message.startswith(f"`{key}` is required; for example ")
    example = message.partition("for example ")[2]
    parse(yaml.safe_dump(rest) + f"{key}: {example}")


def test_a_misspelt_required_key_is_not_called_missing() -> None:
    assert "did you mean `study`" in refusal("studdy: s\nobjective: language\nbudgets: [1M]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("# nothing but a comment", "it is empty"),
        ("- study: s", "it is a list"),
        ("just words", "it is a str"),
        ("study: s\nstudy: t", "the key `study` is given twice (line 2)"),
        ("space:\n  depth: [1, 2]\n  depth: [1, 3]", "the key `depth` is given twice (line 3)"),
        ("study: !!python/object/apply:os.system [ls]", "tag"),
        ("study: !!python/name:os.system", "tag"),
        ("study: [", "line 1"),
        ("a: b: c", "line 1"),
        ("train:\n\tlearning_rate: 1", "line 2"),
        ("? [a, b]\n: 1", "a key must be a word (line 1)"),
        ("study: 2024-13-45", "not a plain YAML file"),
        ("study: \0", "not a plain YAML file"),
        ("a: " + "[" * 20_000, "nested too deeply"),
        ("study: " + "9" * 5000, "not a plain YAML file"),
    ],
)
def test_a_file_that_is_no_plain_yaml_mapping_is_refused_in_one_line(text: str, words: str) -> None:
    message = refusal(text)
    assert words in message
    assert_readable(message)


def test_a_tag_never_runs_code(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    refusal(f'study: !!python/object/apply:pathlib.Path.touch ["{victim}"]')
    assert not victim.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"\x80\x00\xffELF", "must be UTF-8 text, byte 0 is not"),
        (b"study: s\nbudget: [1M]\nobjective: language", "did you mean `budgets`"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "study.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert_readable(str(caught.value).replace(str(path), ""))


def test_a_folder_is_no_study_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
LEAVES = [
    (name, key)
    for name, field in StudyConfig.model_fields.items()
    for key in [key for group in groups_of(field.annotation) for key in group.model_fields] or [""]
]


def study_or_refusal(text: str) -> StudyConfig | str:
    try:
        return parse(text)
    except ConfigError as error:
        return str(error)


@settings(max_examples=150)
@given(st.sampled_from(LEAVES), VALUES)
def test_whatever_the_value_of_a_key_the_answer_is_a_study_or_lines_with_the_key(
    leaf: tuple[str, str], value: object
) -> None:
    name, key = leaf
    group = {"objective": {"name": "language"}}.get(name, {}) if key else {}
    changes = {name: group | {key: value} if key else value}
    answer = study_or_refusal(study(**changes))
    if isinstance(answer, StudyConfig):
        assert parse(dump(answer)) == answer
    else:
        for line in answer.splitlines():
            assert line.startswith(("`", "unknown key", "not a plain YAML file"))


@given(st.text(max_size=40))
def test_whatever_the_text_the_answer_is_a_few_lines(text: str) -> None:
    assert len(refusal(text).splitlines()) <= 9


def test_a_process_never_has_more_threads_than_the_machine_has_cores() -> None:
    assert ResourcesConfig(cpus_per_trial=9999).threads == os.cpu_count()
    assert ResourcesConfig(cpus_per_trial=1).threads == 1
