"""Study files: the accepted ones, and the error messages for the others."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fathom.models.options import Positions
from fathom.models.parametrization import Parametrization, Scheme
from fathom.search.study.file.errors import ConfigError, groups_of
from fathom.search.study.file.study_file import dump, load, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import ResourcesConfig
from tests.support.refusals import MINIMAL, REFUSALS, Refusal

JARGON = re.compile(
    r"Input should|valid (tuple|string|dict|list)|match pattern|pydantic|type=|codec|dictionary"
    r"|Value error|NoneType|after validation|instance of|constrained|extra_forbidden|Traceback",
    re.IGNORECASE,
)


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


def groups(model: type[BaseModel]) -> list[type[BaseModel]]:
    inner = [
        group for field in model.model_fields.values() for group in groups_of(field.annotation)
    ]
    return [model, *(deeper for group in inner for deeper in groups(group))]


WITHOUT_DEFAULT = {
    "TokensConfig": {"name", "train"},
    "ExternalConfig": {"name", "vocabulary", "context"},
}
"""Group of what only the user knows -> its keys without a default."""


@pytest.mark.parametrize("group", groups(StudyConfig)[1:])
def test_every_key_of_a_group_has_a_default_but_what_only_the_user_knows(
    group: type[BaseModel],
) -> None:
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
    settings = {"corpus": "x.txt", "context": 32, "eval_tokens": 4000}
    defaults = {"tokenizer": "bytes", "validation_fraction": 0.1}
    assert config.objective.settings() == settings | defaults


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


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ({"name": "language"}, {"context": 128, "eval_tokens": 4096}),
        ({"name": "language", "context": 64, "eval_tokens": 100}, {"eval_tokens": 100}),
        ({"name": "transduction"}, {"eval_examples": 16, "context": 256}),
        ({"name": "hop"}, {"eval_examples": 16}),
        ({"name": "blocks", "eval_examples": 3}, {"eval_examples": 3}),
        ({"name": "a.b:C", "eval_examples": 300}, {"eval_examples": 300}),
    ],
)
def test_a_probe_is_no_larger_than_asked_where_the_task_allows_it(
    objective: dict[str, Any], expected: dict[str, Any]
) -> None:
    keys = parse(study(objective=objective)).objective
    probing = keys.for_probe(context=128, eval_tokens=4096).settings()
    assert probing.items() >= expected.items()


FAR_FROM_DEFAULT = """
study: s
objective: language
budgets: [300k, 999999999999]
count: non_embedding
tokens_per_parameter: 0.3333333333333333
space: {depth: [2, 3], ff_ratio: [0.1, 7.7], n_heads: 3, head_dim: 6}
sampler: ladder
stopping: {enabled: false}
confirm: {rates: [1, 0.14285714285714285]}
model:
  {attention: {queries_per_key: 3, qk_norm: true}, feed_forward: {activation: relu2}, tied: false,
   positions: learned, residual: admin_closed, norm: rms, biases: true, embedding_rank: 24,
   smeared_keys: true, looped: true, parametrization: {scheme: mup}}
train: {batch_size: 3, eps: 1e-20, precision: bfloat16, betas: [0, 0.999]}
resources: {gpus_per_trial: 0.25, max_concurrent_trials: 7}
tracking: {uri: 'sqlite:///a b.db'}
seed: 2147483647
"""


def test_a_study_far_from_the_defaults_survives_a_round_trip() -> None:
    config = parse(FAR_FROM_DEFAULT)
    assert parse(dump(config)) == config
    assert config != parse(study())


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda refused: refused.changes[:60])
def test_a_wrong_study_is_answered_with_key_rule_value_and_remedy(refused: Refusal) -> None:
    message = refusal(yaml.safe_dump(refused.values))
    assert refused.is_told_by(message), message
    for line in message.splitlines():
        assert_readable(line)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"count": "x" * 5000}, "`count` must be one of "),
        ({"budgets": list(range(1, 99))}, "`budgets` must be at most 50 values, got [1, 2"),
    ],
)
def test_a_long_value_is_cut(changes: dict[str, Any], start: str) -> None:
    message = refusal(study(**changes))
    assert message.startswith(start)
    assert "..." in message
    assert_readable(message)


@pytest.mark.parametrize("key", MINIMAL)
def test_a_missing_key_is_named_with_an_example_that_works(key: str) -> None:
    rest = {name: value for name, value in MINIMAL.items() if name != key}
    message = refusal(yaml.safe_dump(rest))
    assert message.startswith(f"`{key}` is required; for example ")
    example = message.partition("for example ")[2]
    parse(yaml.safe_dump(rest) + f"{key}: {example}")


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
        (b"", "Is a directory"),
        (b"\x80\x00\xffELF", "must be UTF-8 text, but byte 0 is not"),
        (b"study: s\nbudget: [1M]\nobjective: language", "did you mean `budgets`"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "study.yaml"
    if content == b"":
        path.mkdir()
    elif content:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert_readable(str(caught.value).replace(str(path), ""))


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
