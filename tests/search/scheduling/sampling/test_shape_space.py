"""The space of shapes for anybody's own tuner: `sampling/shape_space.py`."""

import optuna
import pytest

from fathom import DepthSampler, ShapeSpace

SPACE = ShapeSpace("1M", vocab_size=256, space={"depth": (1, 12)})


def test_every_point_of_the_distributions_has_a_shape_of_the_size() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(50):
        shape = SPACE.shape(**study.ask(SPACE.distributions).params)
        assert abs(shape.params_total - 1_000_000) <= 5000
    assert set(SPACE.distributions) == {"depth", "ff_ratio"}


def test_a_shape_has_the_depth_and_nearly_the_ratio_and_a_config_of_its_sizes() -> None:
    shape = SPACE.shape(depth=4, ff_ratio=4.0)

    assert shape.depth == 4
    assert abs(shape.ff_ratio - 4) < 0.5
    config = SPACE.config(shape)
    assert config["d_model"] == config["n_heads"] * config["head_dim"]
    assert config["params_total"] == shape.params_total
    assert (config["depth"], config["d_ff"]) == (4, shape.d_ff)


def test_a_space_without_feed_forward_branches_has_depth_alone() -> None:
    space = ShapeSpace("1M", vocab_size=256, space={"feed_forward": False}, tolerance=0.05)

    assert set(space.distributions) == {"depth"}
    assert space.shape(depth=8).d_ff == 0


def test_the_sampler_of_depths_draws_the_space_s_own_shapes_each_once() -> None:
    study = optuna.create_study(sampler=DepthSampler(seed=0, shapes=SPACE.shapes))
    points = []
    for _ in range(12):
        trial = study.ask(SPACE.distributions)
        shape = SPACE.shape(**trial.params)
        assert trial.params == {"depth": shape.depth, "ff_ratio": shape.ff_ratio}
        points.append(shape)
        study.tell(trial, 2 + 0.05 * abs(shape.depth - 5))

    assert len(set(points)) == 12
    assert len({shape.depth for shape in points[:7]}) == 7


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"params": "1Q"}, "must be a positive number such as 300000, 300k or 1.5M, got '1Q'"),
        ({"params": "1k"}, "has shapes at no depth"),
        ({"params": "1M", "space": {"dept": (1, 2)}}, "did you mean `space.depth`?"),
        ({"params": "1M", "count": "totl"}, "did you mean `total`?"),
    ],
)
def test_a_space_that_has_no_shapes_is_refused_in_one_line(
    arguments: dict[str, object], line: str
) -> None:
    with pytest.raises(ValueError, match=r"got|;") as refusal:
        ShapeSpace(vocab_size=256, **arguments)  # type: ignore[arg-type]

    assert line in str(refusal.value)
    assert "\n" not in str(refusal.value)
