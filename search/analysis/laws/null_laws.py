"""Baseline laws of the best depth, with one constant each, which claim less than a fitted law.

They are: the same depth at every size; the same aspect ratio, `d_model / depth`; and `depth = k
N^(1/3)`, at which a loss `E + a / depth + b / d_model` is lowest (arXiv 2602.05970). They are
fitted to the same best depths as the laws and tested in the same way, to show whether a law does
better.

Without embeddings, models have `N = c * depth * d_model**2` parameters, so that the last two are
the same law. With embeddings, `N = c * depth * d_model**2 + e * d_model`, and at the same aspect
ratio depth grows faster where embeddings are a large share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, sqrt

import numpy as np

from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import Law, Prediction, law_points, predict_by, usable
from fathom.search.analysis.laws.law_fit import Form, LawFit, SizedDepths, fit_form, leave_one_out
from fathom.search.analysis.losses.depth_estimates import Array

SAME_DEPTH = "same depth"
SAME_ASPECT_RATIO = "same aspect ratio"
CUBE_ROOT = "cube root"

SMALLEST_SHARE = 1e-3
"""Share of a shape's counted parameters below which its embeddings are neglected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullLaw:
    """A law with one constant, fitted across the budgets of a study."""

    name: str
    """`same depth`, `same aspect ratio` or `cube root`."""
    constant: float
    """By name: the depth; the width divided by the depth; or the depth at one parameter."""
    error: float
    """Standard error of the constant's ln."""
    scatter: float
    """Standard deviation of ln depth about the law, beyond the errors of the optima."""
    leave_one_out_error: float | None
    """Mean absolute error of ln depth when each budget is predicted from the others."""
    params_range: tuple[int, int]
    """Smallest and largest budget fitted."""
    whole_layers: bool = False
    """True if sizes count only layers, so that the cube-root law is also that of the same aspect
    ratio."""
    layer: float = 0.0
    """Parameters of a layer, divided by `d_model**2`, for the same aspect ratio."""
    embedding: float = 0.0
    """Counted parameters outside the layers, divided by `d_model`, for the same aspect ratio."""

    def predict(self, params: float, tokens: float | None = None) -> Prediction:
        """The predicted depth for a number of parameters with its 95 % interval, whatever the
        `tokens`.

        Raises:
            ValueError: when the law has no depth of at least 1 there.
        """
        form = _form(self.name, self.layer, self.embedding)
        fit = LawFit(np.log([self.constant]), np.array([[self.error**2]]), self.scatter)
        return predict_by(form, fit, params, self.params_range, law=self.name)


def fit_null_laws(optima: Sequence[Optimum]) -> tuple[NullLaw, ...]:
    """The baseline laws through the usable budgets, lowest leave-one-out error first; empty if the
    budgets are too few.

    The law of the same aspect ratio is left out where it equals the cube-root law.
    """
    points = law_points(optima)
    if points is None:
        return ()
    layer, embedding = _parameters_by_width(usable(optima))
    names = [SAME_DEPTH, CUBE_ROOT, *([SAME_ASPECT_RATIO] if embedding else [])]
    alone = all(optimum.count is not Count.TOTAL for optimum in usable(optima))
    found = (_null_law(name, points, layer, embedding) for name in names)
    laws = [replace(law, whole_layers=alone) for law in found if law]
    laws.sort(key=lambda law: inf if (error := law.leave_one_out_error) is None else error)
    return tuple(laws)


def as_good(law: Law, null_laws: Sequence[NullLaw]) -> tuple[NullLaw, ...]:
    """The baseline laws that predict left-out budgets about as well as a law or better (0.01 in ln
    depth); empty if the law itself can't be tested."""
    error = law.leave_one_out_error
    if error is None:
        return ()
    tested = [null for null in null_laws if null.leave_one_out_error is not None]
    return tuple(n for n in tested if round((n.leave_one_out_error or 0.0) - error, 2) <= 0)


def _null_law(name: str, points: SizedDepths, layer: float, embedding: float) -> NullLaw | None:
    form = _form(name, layer, embedding)

    def fitted(some: SizedDepths) -> tuple[Form, LawFit] | None:
        fit = fit_form(form, some, np.zeros(1)) if len(some.measured.params) else None
        return (form, fit) if fit else None

    if (found := fitted(points)) is None:
        return None
    fit = found[1]
    return NullLaw(
        name=name,
        constant=exp(float(fit.constants[0])),
        error=sqrt(fit.covariance[0, 0]),
        scatter=fit.scatter,
        leave_one_out_error=leave_one_out(fitted, points),
        params_range=(int(points.params.min()), int(points.params.max())),
        layer=layer,
        embedding=embedding,
    )


def _parameters_by_width(optima: Sequence[Optimum]) -> tuple[float, float]:
    """Mean over the best shapes of a layer's parameters divided by `d_model**2`, and of counted
    embedding parameters divided by `d_model`; (0, 0) without shapes."""
    found = []
    for optimum in optima:
        if (shape := _best_shape(optimum)) is not None:
            size, width = shape.size(optimum.count), shape.d_model
            beside = max(0, size - shape.params_non_embedding)
            beside = beside if beside > SMALLEST_SHARE * size else 0
            found.append(((size - beside) / (shape.depth * width**2), beside / width))
    if not found:
        return 0.0, 0.0
    layer, embedding = np.mean(found, axis=0).tolist()
    return layer, embedding


def _best_shape(optimum: Optimum) -> Shape | None:
    """The best shape; in a table, the shape of the depth with the lowest measured loss."""
    lowest = (depth.shape for depth in optimum.depths if depth.depth == optimum.lowest_depth)
    return optimum.shape or next(lowest, None)


def _form(name: str, layer: float, embedding: float) -> Form:
    if name == SAME_ASPECT_RATIO:
        return partial(_same_aspect_ratio, layer, embedding)
    return partial(_power_of_size, 1 / 3 if name == CUBE_ROOT else 0.0)


def _power_of_size(exponent: float, constant: Array, params: Array) -> tuple[Array, Array]:
    """Depths `k N^exponent` for the constant ln k, and the derivatives of ln depth by the
    constant."""
    return np.exp(constant + exponent * np.log(params)), np.ones((len(params), 1))


def _same_aspect_ratio(
    layer: float, embedding: float, constant: Array, params: Array
) -> tuple[Array, Array]:
    """Depths L that solve `c r^2 L^3 + e r L = N` for the constant ln r, and the derivatives of ln
    depth by the constant."""
    ratio = np.exp(constant)
    p, q = embedding / (layer * ratio), params / (layer * ratio**2)
    depth = 2 * np.sqrt(p / 3) * np.sinh(np.arcsinh(1.5 * q / p * np.sqrt(3 / p)) / 3)
    layers, beside = layer * ratio**2 * depth**3, embedding * ratio * depth
    return depth, -((2 * layers + beside) / (3 * layers + beside))[:, None]
