"""Output of `fathom check`: a line per rate, the verdicts with their reasons, and JSON."""

from rich.console import Console
from rich.table import Column
from rich.text import Text

from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.search.contract.reply import CheckedStudy, Reply
from fathom.search.laboratory.check.check import RATE_LIMIT, AxisCheck, CheckResult, scheme_of
from fathom.search.laboratory.check.decays import DecayCheck, DecayPoint
from fathom.search.laboratory.check.probe import Probe, Watch
from fathom.search.laboratory.check.rate_sweep import RatePoint, Sweep
from fathom.search.report.terminal.tables import RoomyTable
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import DECAYS

ACTIVATIONS = {
    "stream": "the residual stream",
    "features": "the normed features",
    "logits": "the logits",
}
CHECKED = ("carries_over", "best_rate", "rate_fits", "decays", "axes", "sweeps")
"""Values of a check that `--json` prints unchanged."""


def follow(console: Console) -> Watch:
    """Returns a function that prints the losses of a shape at a rate or a weight decay."""

    def say(shape: Shape, point: RatePoint | DecayPoint) -> None:
        losses = " ".join(f"{loss:.4f}" for loss in point.losses)
        if isinstance(point, RatePoint):
            tried = f"rate {_factor(point.log2_factor)}"
        else:
            tried = f"decay {point.decay:g}"
        line = f"{_name(shape):<24} {tried:<12} loss {losses}"
        console.print(line, style="dim")

    return say


def print_opening(config: StudyConfig, probe: Probe, console: Console) -> None:
    """Prints the question that the check answers, and the size of its trainings."""
    scheme = scheme_of(config)
    rules = f"`{scheme.value}`" if scheme else "the same rate for all weights"
    console.print(
        f"Study {config.study}: is {_rate(config.train.learning_rate)} a fair rate for every "
        f"shape under {rules}?",
        style="bold",
    )
    console.print(
        f"small shapes, {probe.steps} steps, {probe.seeds} seeds; rates in multiples of that one",
        style="dim",
    )


def print_check(result: CheckResult, console: Console) -> None:
    """Prints the verdicts, their reasons, and which settings to change."""
    headings = ("axis", "trained", "best rates", "per doubling", "activations", "verdict")
    columns = (Column(heading, no_wrap=True) for heading in headings)
    table = RoomyTable(*columns, box=None, padding=(0, 2, 0, 0), header_style="bold")
    for axis in result.axes:
        rates = [
            _rate(result.config.train.learning_rate * 2**sweep.best_log2_factor)
            for sweep in (axis.base, axis.far)
        ]
        table.add_row(
            axis.axis.value,
            "{} to {}".format(*axis.sizes),
            " to ".join(rates),
            _step(axis),
            _power(axis) if axis.coordinates else "not measured",
            Text("carries over", "green")
            if axis.carries_over
            else Text("does not carry over", "red"),
        )
    console.print()
    console.print(table)
    for axis in result.axes:
        console.print(f"{axis.axis.value}: {reason(axis, scheme_of(result.config))}")
    console.print(f"rate: {rate_text(result)}")
    if result.decays:
        console.print(f"weight decay: {decay_reason(result.decays)}")
    console.print(scope(result), style="dim")


def reason(axis: AxisCheck, scheme: Scheme | None) -> str:
    """Returns the reason of an axis's verdict in one sentence, with a remedy if it is negative."""
    near, far = axis.sizes
    name = axis.axis.value
    if axis.carries_over:
        text = f"from {name} {near} to {far} the best rate goes {_step(axis)} per doubling"
        return f"{text}, and {_coordinates_text(axis)}" if axis.coordinates else text
    faults = [
        f"the best rate at {name} {size} lies {_beyond(sweep)}"
        for sweep, size in ((axis.base, near), (axis.far, far))
        if not sweep.enclosed
    ]
    if not faults and not axis.rate_stays:
        faults.append(
            f"the best rate goes {_step(axis)} per doubling from {name} {near} to {far}, more than "
            f"the {_factor(RATE_LIMIT)} allowed either way"
        )
    if axis.coordinates and not axis.coordinates.flat:
        faults.append(f"{_coordinates_text(axis)}, so sizes far apart train differently")
    return f"{', and '.join(faults)}; {_remedy(scheme)}"


def rate_text(result: CheckResult) -> str:
    """Returns one sentence: the fit of the study's rate to the base shape, and the rate to set."""
    rate, best = _rate(result.config.train.learning_rate), _rate(result.best_rate)
    base, name = result.base, _name(result.base.shape)
    if not base.enclosed:
        beyond = f"the best rate of {name} lies {_beyond(base)}"
        return f"{beyond}; set `train.learning_rate: {best}` and check again"
    if not result.carries_over:
        return f"{best} is best for {name}; no one rate suits every shape"
    if result.rate_fits:
        return f"{rate} is within a factor of 2 of {best}, the best for {name}"
    return (
        f"{rate} is {_factor(-base.best_log2_factor)} of {best}, the best for {name}; "
        f"set `train.learning_rate: {best}`"
    )


def decay_reason(check: DecayCheck) -> str:
    """Returns which weight decay suits both depths, what the others cost, and what to set."""
    own, common = f"{check.own:g}", f"{check.common:g}"
    tried = (
        f"of {', '.join(f'{decay:g}' for decay in check.decays)}, over {check.epochs:.1f} epochs"
    )
    if not check.learnt:
        return (
            f"{tried}, none learnt more than a guess in so short a training; "
            f"bracket the decay with `confirm.decays: {DECAYS}`"
        )
    if not check.one_suits_both:
        best = " and ".join(
            f"{sweep.best.decay:g} is best for {_name(sweep.shape)}" for sweep in check.sweeps
        )
        return (
            f"{tried}, {best}; any one costs one of them {_nats(check, check.common)} or more; "
            f"bracket the decay with `confirm.decays: {DECAYS}`"
        )
    if check.own_suits_both:
        return f"{tried}, {own} suits both depths, at most {_nats(check, check.own)} above the best"
    at_an_end = check.common in (check.decays[0], check.decays[-1]) and check.common
    again = " and check again, as it is the last one tried" if at_an_end else ""
    return (
        f"{tried}, {common} suits both depths, and the study's {own} costs one of them "
        f"{_nats(check, check.own)}; set `train.weight_decay: {common}`{again}"
    )


def _nats(check: DecayCheck, decay: float) -> str:
    error = f" (standard error {check.error:.3f})" if check.error else ""
    return f"{check.cost(decay):.3f} nats{error}"


def scope(result: CheckResult) -> str:
    """Text on the sizes that were trained and checked, compared with those of the study."""
    shapes = [sweep.shape for sweep in result.sweeps]
    trained = ", ".join(f"{_depth(shape)} x {shape.d_model}" for shape in shapes)
    heads = [f"{shape.n_heads} of {shape.head_dim}" for shape in shapes]
    probe, decays = result.probe, result.decays
    decayed = "; at each decay as much was taken off the weights as in the study" if decays else ""
    return (
        f"trained: depth x width {trained}, heads {', '.join(heads)}, d_ff 4 times the width, "
        f"{probe.steps} steps of about {probe.tokens_per_step} tokens, {probe.seeds} seeds"
        f"{decayed}\n"
        f"{'; '.join(_reach(axis, result.study_sizes[axis.axis]) for axis in result.axes)}"
    )


def _reach(axis: AxisCheck, sizes: tuple[int, int]) -> str:
    """Returns one clause on the distance of the study's sizes from those that were checked."""
    (least, most), trained = sizes, axis.sizes[1]
    checked = axis.coordinates.sizes[-1] if axis.coordinates else trained
    text = f"the study's {axis.axis.value} goes from {least} to {most}"
    if most <= trained:
        return text
    if not axis.coordinates:
        return f"{text}, and what is beyond {trained} was not checked"
    seen = "" if most <= checked else f", and beyond {checked} on nothing"
    return f"{text}, which beyond {trained} rests on the coordinate check alone{seen}"


def check_reply(result: CheckResult) -> Reply:
    """The result for `--json`."""
    config, scheme = result.config, scheme_of(result.config)
    reasons = {axis.axis.value: reason(axis, scheme) for axis in result.axes}
    decays = {"decays": decay_reason(result.decays)} if result.decays else {}
    checked = CheckedStudy.model_validate(
        {name: getattr(result, name) for name in CHECKED}
        | {"study": config.study, "scheme": scheme, "learning_rate": config.train.learning_rate}
        | {"reasons": reasons | {"rate": rate_text(result)} | decays}
    )
    return Reply(command="check", checked=checked)


def _step(axis: AxisCheck) -> str:
    error = f" (standard error x{2**axis.error:.2f})" if axis.error else ""
    return f"x{2**axis.log2_shift:.2f}{error}"


def _coordinates_text(axis: AxisCheck) -> str:
    assert axis.coordinates, "else there is nothing to say"
    name, _ = axis.coordinates.largest
    sizes = f"from {axis.axis.value} {axis.coordinates.sizes[0]} to {axis.coordinates.sizes[-1]}"
    change = "by the same amount" if axis.coordinates.flat else "by different amounts"
    trend = f"{ACTIVATIONS[name]} most: as {_power(axis)}"
    return f"activations change {change} {sizes} ({trend})"


def _power(axis: AxisCheck) -> str:
    assert axis.coordinates, "else there is nothing to say"
    return f"{axis.axis.value}^{axis.coordinates.largest[1]:.2f}"


def _remedy(scheme: Scheme | None) -> str:
    if scheme is None:
        return "the search brackets the rate of each depth in question; or give `model.roles`"
    if scheme is not Scheme.COMPLETEP:
        return "set `model.parametrization.scheme: completep`"
    return (
        "bring `base_width` and `base_depth` of `model.parametrization` nearer to the study's "
        "shapes, or lower its `init_std`, and bracket rates with `confirm.rates: [0.5, 1, 2]`"
    )


def _beyond(sweep: Sweep) -> str:
    side = "below" if sweep.lowest == sweep.points[0] else "above"
    return f"{side} {_factor(sweep.lowest.log2_factor)} of the study's, the last one tried"


def _name(shape: Shape) -> str:
    return f"depth {_depth(shape)}, d_model {shape.d_model}"


def _depth(shape: Shape) -> str:
    """Returns the depth, or the depths of encoder and decoder."""
    both = f"{shape.encoder_depth}-{shape.decoder_depth}"
    return both if shape.encoder_depth else str(shape.depth)


def _rate(rate: float) -> str:
    return f"{rate:.2g}"


def _factor(log2_factor: float) -> str:
    return f"x{2**log2_factor:.2g}"
