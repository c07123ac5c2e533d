"""Every shape of a space, walked: exact, within range, none missed, each filled at its best."""

import json
import math
import re
import time
from dataclasses import replace
from functools import cache
from itertools import pairwise
from operator import attrgetter

import pytest
import torch

from fathom.models.network.transformer import Transformer
from fathom.models.shape import Shape
from fathom.search.study.file.errors import ConfigError, PlanError
from fathom.search.study.file.study_file import changed, parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import default_head_dim
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.free_size import FREE_SIZE
from tests.support.models import STANDARD
from tests.support.refusals import refused

VOCAB = 256
BUDGETS = ("3e5", "1e6", "1e7", "1e8", "1e9")
COUNTS = ("total", "non_embedding")


def study(budget: str, rest: str = "") -> StudyConfig:
    return parse(
        f"study: s\nobjective: {{name: language, context: 64}}\nbudgets: [{budget}]\n{rest}"
    )


@cache
def walk(
    budget: str, rest: str = "", vocab_size: int = VOCAB
) -> tuple[StudyConfig, Budget, tuple[Shape, ...]]:
    config = study(budget, rest)
    first = expand_budgets(config)[0]
    return config, first, feasible_shapes(config, first, vocab_size)


def built_size(shape: Shape, *, counts_outside: bool) -> int:
    """Parameters of the model itself, on the meta device."""
    with torch.device("meta"):
        model = Transformer(shape, STANDARD)
    outside = ("embedding.weight", "positions", "unembedding.weight")
    return sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if counts_outside or name not in outside
    )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_shape_meets_its_budget_and_the_rules_of_the_space(budget: str, count: str) -> None:
    config, first, shapes = walk(budget, f"count: {count}")
    low, high = config.space.ff_ratio
    multiple = 1 if budget == "3e5" else 8
    places = [(shape.depth, shape.d_model) for shape in shapes]
    assert all(a < b for a, b in pairwise(places)), "ordered, and each place once"
    for shape in shapes:
        assert abs(first.count_error(shape)) <= config.tolerance
        assert 1 <= shape.depth <= 64
        assert low <= shape.ff_ratio <= high
        assert shape.head_dim == default_head_dim(min(config.budgets))
        assert shape.d_attention == shape.d_model
        assert shape.d_model % multiple == shape.d_ff % multiple == 0
        assert (shape.vocab_size, shape.context) == (VOCAB, 64)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_model_as_built_has_the_size_the_space_says(budget: str, count: str) -> None:
    _, first, shapes = walk(budget, f"count: {count}")
    ends = [
        end(shapes, key=attrgetter(size))
        for end in (min, max)
        for size in ("depth", "d_model", "d_ff", "ff_ratio")
    ]
    step = 1 if budget == "1e6" else max(1, len(shapes) // 36)
    for shape in (*shapes[::step], *ends):
        size = built_size(shape, counts_outside=count == "total")
        assert size == shape.size(first.count)
        assert abs(size / first.params - 1) <= first.tolerance


VARIANTS = (
    "",
    "count: non_embedding",
    "model: {gated: true, tied: false, positions: learned}",
    "space: {n_heads: 2, depth: [2, 9]}",
    "space: {head_dim: 6, d_ff_multiple: 4, ff_ratio: [0.5, 3.3]}",
    "space: {head_dim: 4, d_model_multiple: 6, depth: [3, 20], ff_ratio: [2, 3]}\ntolerance: 0.01",
    "space: {n_heads: 3, head_dim: 10, depth: [1, 20]}",
    "space: {n_heads: 2, depth: [1, 2, 5, 9]}",
    "model: {attention: {queries_per_key: 2, qk_norm: true}}\nspace: {head_dim: 6}",
    "model: {attention: {queries_per_key: 4}}\nspace: {n_heads: 4}",
    "space: {feed_forward: false, n_heads: 4, head_dim: 8, depth: [1, 30]}\ntolerance: 0.02",
    "space: {feed_forward: false, head_dim: 4}\ntolerance: 0.04\ncount: non_embedding",
    "space: {depth: [1, 6]}\nmodel: {looped: true, biases: true}",
    "space: {feed_forward: false, head_dim: 4, depth: [2, 4]}\nmodel: {looped: true}\n"
    "tolerance: 0.05",
    "model: {residual: admin_closed, embedding_rank: 6, smeared_keys: true, biases: true, "
    "parametrization: {scheme: standard}}",
    "model: {experts: {number: 4, top_k: 2, shared: 1, every: 2}}\n"
    "space: {ff_ratio: [0.25, 4]}\ncount: active",
    "model: {experts: {number: 3, top_k: 1, every: 3}, gated: true}\ncount: matrices",
    "model: {experts: {number: 8, top_k: 2}}\nspace: {ff_ratio: [0.2, 3], head_dim: 4}",
    "model: {state_space: {state: 7}}\nspace: {head_dim: 4}",
    "model: {state_space: {pattern: AM, state: 3, expand: 1}}\ncount: non_embedding",
    "model: {state_space: {pattern: MMA, state: 4}, experts: {number: 3, top_k: 1, every: 2}}\n"
    "space: {ff_ratio: [0.25, 4], head_dim: 4, depth: [1, 12]}\ncount: active",
    "model: {groups: 4}",
    "model: {groups: 3, gated: true, biases: true, attention: {queries_per_key: 2}}\n"
    "space: {head_dim: 4}",
    "model: {groups: 2}\nspace: {n_heads: 3, d_ff_multiple: 3}\ncount: matrices",
    "model: {groups: 5, looped: true}\n"
    "space: {n_heads: 5, head_dim: 2, depth: [1, 6], ff_ratio: [2, 8]}",
    "model: {groups: 4}\nspace: {feed_forward: false, n_heads: 2}\ntolerance: 0.03",
    "model: {state_space: {pattern: M, state: 8}}\ntolerance: 0.03\n"
    "space: {feed_forward: false, head_dim: 4}",
)


def heads_of(config: StudyConfig, d_model: int) -> tuple[int, int] | None:
    """Number of heads and their width; None if they do not fit the width of the model."""
    n_heads, head_dim = config.space.n_heads, config.space.head_dim
    if n_heads and head_dim:
        return n_heads, head_dim
    if n_heads:
        return None if d_model % (2 * n_heads) else (n_heads, d_model // n_heads)
    head_dim = head_dim or 16
    group = config.model.attention.queries_per_key
    return None if d_model % (head_dim * group) else (d_model // head_dim, head_dim)


def d_ffs_of(config: StudyConfig, d_model: int) -> list[int]:
    space = config.space
    if not space.feed_forward:
        return [0]
    (low, high), step = space.ff_ratio, space.d_ff_multiple or 1
    d_ffs = range(step, math.floor(high * d_model) + 1, step)
    d_ffs_in_range = [d_ff for d_ff in d_ffs if low <= d_ff / d_model <= high]
    return [d_ff for d_ff in d_ffs_in_range if d_ff % config.model.groups == 0]


@pytest.mark.parametrize("rest", VARIANTS)
def test_no_feasible_shape_is_missed_and_each_is_the_best_of_its_depth_and_width(rest: str) -> None:
    config, budget, shapes = walk("60k", rest, 32)
    space = config.space
    best: dict[tuple[int, int], float] = {}
    for depth in space.depths:
        for d_model in range(1, 700):
            heads = heads_of(config, d_model)
            if heads is None or d_model % (space.d_model_multiple or 1):
                continue
            groups = config.model.groups
            d_kv = heads[0] * heads[1] // config.model.attention.queries_per_key
            if d_model % groups or d_kv % groups:
                continue
            for d_ff in d_ffs_of(config, d_model):
                shape = Shape(
                    depth=depth, d_model=d_model, d_ff=d_ff, n_heads=heads[0], head_dim=heads[1],
                    vocab_size=32, context=64, **config.model.options,
                )  # fmt: skip
                error = abs(budget.count_error(shape))
                if shape.size(budget.count) > 1.06 * budget.params:
                    break  # wider is larger still
                if error <= budget.tolerance:
                    place = (depth, d_model)
                    best[place] = min(error, best.get(place, 1.0))
    found = {(shape.depth, shape.d_model): abs(budget.count_error(shape)) for shape in shapes}
    assert found == pytest.approx(best, abs=1e-12)
    assert len({shape.depth for shape in shapes}) >= 3


def test_every_option_of_a_model_reaches_every_shape() -> None:
    given = {
        "gated": False, "tied": False, "positions": "none", "residual": "deepnorm",
        "norm": "rms", "biases": True, "embedding_rank": 20, "smeared_keys": True, "looped": True,
        "bidirectional": False, "groups": 2,
    }  # fmt: skip
    groups: dict[str, dict[str, object]] = {
        "attention": {"queries_per_key": 2, "qk_norm": True},
        "feed_forward": {"activation": "relu2"},
    }
    words = json.dumps(given | groups | {"parametrization": {"scheme": "mup"}})
    _, _, shapes = walk("300k", f"model: {words}")
    given |= {name: value for group in groups.values() for name, value in group.items()}
    for name, value in given.items():
        assert {getattr(shape, name) for shape in shapes} == {value}
    options = study("1M").model.options.keys() - {
        "experts",
        "state_space",
    }  # which go with few others
    assert set(given) == options, "no option is missing here"


def test_without_feed_forward_a_depth_has_the_widths_that_meet_the_budget() -> None:
    rest = "space: {feed_forward: false, head_dim: 16, n_heads: 4, depth: [1, 40]}"
    _, budget, shapes = walk("300k", f"{rest}\ntolerance: 0.01")
    assert {shape.d_ff for shape in shapes} == {0}
    assert len({shape.depth for shape in shapes}) > 20
    assert all(abs(budget.count_error(shape)) <= 0.01 for shape in shapes)
    snapped = [nearest_shape(shapes, depth=shape.depth, ff_ratio=1e-3) for shape in shapes]
    assert [shape.depth for shape in snapped] == [shape.depth for shape in shapes]


@pytest.mark.parametrize(
    ("budgets", "head_dim"),
    [("300k, 20M", 16), ("9.9M, 20M", 16), ("10M", 32), ("99M", 32), ("100M", 64), ("1T", 64)],
)
def test_the_smallest_budget_decides_the_width_of_a_head(budgets: str, head_dim: int) -> None:
    assert default_head_dim(min(study(budgets).budgets)) == head_dim


def test_each_budget_decides_of_what_its_widths_are_multiples() -> None:
    config = study("300k, 999k, 1M, 20M")
    of_budget = {
        budget.label: feasible_shapes(config, budget, VOCAB) for budget in expand_budgets(config)
    }
    for label, shapes in of_budget.items():
        uneven = {shape.d_ff % 8 for shape in shapes} != {0}
        assert uneven == (label in ("300k", "999k")), label
    for label in ("300k", "999k"):  # no other budget changes their shapes
        assert of_budget[label] == walk(label)[2]


def test_a_multiple_that_the_study_gives_holds_for_every_budget() -> None:
    config = study("300k, 20M", "space: {d_ff_multiple: 3}")
    for budget in expand_budgets(config):
        shapes = feasible_shapes(config, budget, VOCAB)
        assert {shape.d_ff % 3 for shape in shapes} == {0}
        assert {shape.d_ff % 8 for shape in shapes} != {0}


def test_a_hundred_million_parameters_have_hundreds_of_shapes_over_all_depths() -> None:
    _, budget, shapes = walk("1e8", "space: {depth: [1, 95]}")
    assert len(shapes) > 300
    assert {shape.depth for shape in shapes} >= set(range(1, 60))
    assert sum(abs(budget.count_error(shape)) for shape in shapes) / len(shapes) < 0.001


def test_a_billion_parameters_are_solved_in_a_moment() -> None:
    config = study("1e9")
    (budget,) = expand_budgets(config)
    began = time.process_time()
    feasible_shapes(config, budget, 50_257)
    assert time.process_time() - began < 0.3


def test_snapping_takes_the_nearest_depth_and_then_the_nearest_ratio_both_in_log() -> None:
    base = Shape(depth=1, d_model=8, d_ff=8, n_heads=1, head_dim=8, vocab_size=4, context=4)
    shapes = tuple(
        replace(base, depth=depth, d_ff=8 * ratio) for depth in (2, 8) for ratio in (1, 4)
    )
    # Between 2 and 8 the middle is 4 in log, 5 on the line; between 1 and 4 it is 2.
    for depth, expected in ((0.1, 2), (3.9, 2), (4.1, 8), (500.0, 8)):
        assert nearest_shape(shapes, depth=depth, ff_ratio=1.0).depth == expected
    for ratio, expected in ((0.5, 8), (1.9, 8), (2.1, 32), (99.0, 32)):
        assert nearest_shape(shapes, depth=8, ff_ratio=ratio).d_ff == expected


EMPTY = (
    ("100", "", VOCAB),
    ("300k", "", 50_257),
    ("700k", "", 50_257),
    ("9M", "", 600_000),
    ("999k", "space: {depth: [30, 64], ff_ratio: [4, 4.1]}", VOCAB),
    ("950k", "space: {head_dim: 128}", 30_000),
    ("20k", "model: {groups: 1000}", VOCAB),
)


@pytest.mark.parametrize(("budget", "rest", "vocab_size"), EMPTY)
def test_an_empty_space_explains_itself_and_the_budget_it_names_works(
    budget: str, rest: str, vocab_size: int
) -> None:
    config = study(budget, rest)
    with pytest.raises(ConfigError) as caught:
        feasible_shapes(config, expand_budgets(config)[0], vocab_size)
    message = str(caught.value)
    assert message.startswith(f"budget {budget} (")
    assert "\n" not in message
    _, _, named = message.partition("the nearest budget that works is ")
    again = study(named, rest)
    shapes = feasible_shapes(again, expand_budgets(again)[0], vocab_size)
    assert len({shape.depth for shape in shapes}) >= 3


def test_the_named_budget_works_beside_the_other_budgets_of_the_study() -> None:
    config = study("20k, 3M")
    with pytest.raises(ConfigError) as caught:
        feasible_shapes(config, expand_budgets(config)[0], 1000)
    named = str(caught.value).rpartition("works is ")[2]
    again = study(f"{named}, 3M")
    for budget in expand_budgets(again):
        assert feasible_shapes(again, budget, 1000)


NO_BRANCH = "space: {feed_forward: false}"


@pytest.mark.parametrize(
    ("budget", "rest", "vocab_size", "words"),
    [
        (
            "1M",
            NO_BRANCH,
            VOCAB,
            (
                "(with `space.feed_forward: false` only d_model meets it, in steps of 16)",
                "set `space.head_dim: 16` and `space.n_heads: 1`",
                "the nearest budget that works",
            ),
        ),
        ("700k", "", 50_257, ("embedding of 50257 tokens alone takes",)),
        (
            "100k",
            "model: {attention: {queries_per_key: 8}}",
            VOCAB,
            ("at d_model 128, as `queries_per_key: 8` makes widths multiples of 128)",),
        ),
        (
            "20k",
            "model: {groups: 64, attention: {queries_per_key: 2}}",
            VOCAB,
            (
                "at d_model 128, as `queries_per_key: 2` and `groups: 64` makes widths multiples "
                "of 128)",
                "the nearest budget that works is ",
            ),
        ),
        (
            "3e5",
            "model: {groups: 3}\nspace: {d_model: 50, n_heads: 2}",
            VOCAB,
            (
                "`space.d_model` must be a multiple of 12, which the heads of `space` and "
                "`model.groups` need, got 50; use 48,",
            ),
        ),
        (
            "1M",
            "space: {depth: [2, 3]}",
            VOCAB,
            ("3 depths are needed; ", "set `space.depth: [1, 64]`"),
        ),
        ("1M", "space: {ff_ratio: [4, 4]}", VOCAB, ("set `space.ff_ratio: [0.5, 16.0]`",)),
        (
            "9",
            "tokens: 1M\nspace: {head_dim: 16, depth: [9, 90], d_model: 16}",
            VOCAB,
            ("no budget near it has so many depths, even with a wider", "drop it"),
        ),
        ("3e5", "space: {d_model: 50}", VOCAB, ("`space.d_model` must", "got 50; use 48,")),
        ("3e5", "space: {d_model: 1}", VOCAB, ("`space.d_model` must", "got 1; use 16,")),
    ],
)
def test_a_space_without_shapes_is_refused_with_cause_and_remedy(
    budget: str, rest: str, vocab_size: int, words: tuple[str, ...]
) -> None:
    with refused(*words):
        walk(budget, rest, vocab_size)


def test_a_width_need_not_suit_heads_that_are_fixed_in_number_and_width() -> None:
    shapes = walk("3e5", "space: {d_model: 50, n_heads: 3, head_dim: 16}")[2]
    assert {(shape.d_model, shape.n_heads, shape.head_dim) for shape in shapes} == {(50, 3, 16)}


@pytest.mark.parametrize("rest", [NO_BRANCH, "space: {depth: [2, 3]}", "space: {ff_ratio: [4, 4]}"])
def test_a_remedy_for_a_space_without_shapes_is_true(rest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        walk("1M", rest, VOCAB)
    keys = dict(re.findall(r"`space\.(\w+): ([^`]+)`", str(caught.value)))
    first = re.match(r"space: {(.*)}", rest)
    assert keys
    assert first
    kept = [part for part in first[1].split(", ", 1) if part.split(":")[0] not in keys]
    kept = [] if "depth" in keys or "ff_ratio" in keys else kept
    space = ", ".join([*kept, *(f"{key}: {value}" for key, value in keys.items())])
    assert len({shape.depth for shape in walk("1M", f"space: {{{space}}}", VOCAB)[2]}) >= 3


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"params": [50, 300]}, ("at no depth", "not even with", "smallest model has 2.456k")),
        ({"d_ff_multiple": 8}, ("(5 in all); 3 depths and 6 shapes", "set `space.depth: [1, 64]`")),
    ],
)
def test_too_few_shapes_of_free_size_are_refused_by_the_sizes(
    space: dict[str, object], words: tuple[str, ...]
) -> None:
    limits = {"params": ["5k", "30k"], "depth": [1, 4], "head_dim": 8} | space
    config = changed(FREE_SIZE, {f"space.{name}": value for name, value in limits.items()})
    with pytest.raises(PlanError, match=r"^`space\.params: ") as refused:
        feasible_shapes(config, expand_budgets(config)[0], 256)
    assert refused.value.key == "space.params"
    assert all(word in str(refused.value) for word in words), refused.value
