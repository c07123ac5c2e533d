"""The certainty of a budget's best depth, as headings and facts."""

from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.formatting import ranges
from fathom.search.words import plateau_width, probabilities_text


def certainty(optimum: Optimum) -> dict[str, str]:
    """Returns facts by heading; with fewer than three finished depths, facts that need three are
    left out."""
    if not optimum.depths:
        return {}
    facts, unit = dict[str, str](), optimum.unit
    if isinstance(optimum, Located):
        low, high = optimum.curve_minimum_interval
        facts["Lowest point of the curve"] = f"{optimum.curve_minimum:.2f} layers, " + (
            "as far as was tested; it may lie beyond"
            if optimum.kind is Kind.EDGE
            else f"95 % interval {low:.2f} to {high:.2f}, before rounding"
        )
    if possible := not_ruled_out(optimum):
        facts["Cheapest to serve"] = (
            f"depth {possible[0]}, the shallowest of those not ruled out, {ranges(possible)},"
            f" which may lie within {plateau_width(unit)} of the best"
        )
    if isinstance(optimum, Located):
        facts["Probability to be the best"] = f"depth {probabilities_text(optimum)}"
        facts["Price of choosing it"] = (
            f"with a probability of {100 * optimum.chance_of_cost:.0f} %, depth"
            f" {optimum.optimal_depth} costs more than {plateau_width(unit)} against the best"
        )
        facts["Other family of curves"] = (
            f"a parabola puts the best depth a factor of {optimum.family_disagreement:.2f} away,"
            " which shows the doubt about the form of the curve"
        )
        facts["Best at an end"] = (
            f"with a probability of {100 * optimum.share_without_minimum:.1f} % the loss keeps"
            " falling to an end of the tested depths"
        )
    facts["Noise between seeds"] = (
        f"{unit.difference(optimum.noise):.4f} {unit}, standard deviation"
    )
    slope = f"{unit.difference(optimum.params_slope):+.3f} {unit} for each unit of ln parameters"
    if optimum.best_size is None:
        facts["Correction to the exact size"] = slope
    if optimum.best_ff_ratio:
        facts["Best feed-forward ratio"] = f"{optimum.best_ff_ratio:.2g}, among those that finished"
    return facts
