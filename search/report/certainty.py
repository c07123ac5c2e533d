"""The certainty of a budget's best depth, as headings and facts."""

from fathom.search.analysis.optimum import Optimum
from fathom.search.analysis.verdict import PLATEAU_WIDTH, Verdict
from fathom.search.report.text import plateau


def certainty(optimum: Optimum) -> dict[str, str]:
    """Returns heading -> fact; facts that need three finished depths are left out with fewer."""
    if not optimum.depths:
        return {}
    facts = {
        "Lowest point of the curve": _lowest(optimum),
        "Cheapest to serve": _cheapest(optimum),
        "Other family of curves": _other_family(optimum),
        "Draws without a lowest point": _dropped(optimum),
        "Noise between seeds": f"{optimum.noise:.4f} nats, standard deviation",
        "Correction to the exact size": (
            f"{optimum.params_slope:+.3f} nats for each unit of ln parameters"
        ),
        "Best feed-forward ratio": (
            f"{optimum.best_ff_ratio:.2g}, among those that finished"
            if optimum.best_ff_ratio
            else ""
        ),
    }
    return {head: fact for head, fact in facts.items() if fact}


def _lowest(optimum: Optimum) -> str:
    if optimum.curve_minimum is None or optimum.curve_minimum_interval is None:
        return ""
    if optimum.verdict is Verdict.EDGE:
        return f"{optimum.curve_minimum:.2f} layers, as far as was tested; it may lie beyond"
    low, high = optimum.curve_minimum_interval
    return (
        f"{optimum.curve_minimum:.2f} layers, 95 % interval {low:.2f} to {high:.2f},"
        " before rounding"
    )


def _cheapest(optimum: Optimum) -> str:
    if optimum.shallowest_depth is None:
        return ""
    return (
        f"depth {optimum.shallowest_depth}, the shallowest of the plateau {plateau(optimum)}, which"
        f" may lie within {PLATEAU_WIDTH} nats of the best"
    )


def _other_family(optimum: Optimum) -> str:
    if optimum.family_disagreement is None:
        return ""
    return (
        f"a parabola puts the best depth a factor of {optimum.family_disagreement:.2f} away, which"
        " is the doubt about the model"
    )


def _dropped(optimum: Optimum) -> str:
    if optimum.share_without_minimum is None:
        return ""
    return (
        f"{100 * optimum.share_without_minimum:.1f} % of the bootstrap have none inside the tested"
        " depths; they count for the end that is lower"
    )
