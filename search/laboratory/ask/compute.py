"""`fathom ask --flops`: the best size, tokens and depth for an amount of compute, by the laws of a
ladder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from fathom.models.shape import Count, Shape
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.law import predictions
from fathom.search.analysis.laws.loss_law import fit_loss_law, why_no_loss_law
from fathom.search.analysis.losses.scaled_shape import flops_per_token, scaled_shape
from fathom.search.analysis.spending.at_compute import ComputeAnswer, answer_at
from fathom.search.conclusion.law_at import law_at
from fathom.search.conclusion.named_law import PUBLISHED
from fathom.search.conclusion.token_laws import PartLaw
from fathom.search.contract.reply import (
    AskedQuestion,
    AtCompute,
    BestDepth,
    Reply,
    Sizes,
    StatedAnswer,
    StatedVerdict,
    Statement,
)
from fathom.search.formatting import rounded_count
from fathom.search.laboratory.ask.table_losses import TableLosses, is_table, read_losses
from fathom.search.report.words.text import sentence, shape_text
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.hardware.gpus import NAMES, REACHED_FLOPS, gpu_named

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """An amount of compute, and its words in a sentence."""

    flops: float
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAtCompute:
    """The answer to an amount of compute, or why there is none."""

    compute: Compute
    count: Count
    found: ComputeAnswer | None
    """None where no law of loss could be fitted."""
    shape: Shape | None
    """Shape of the answered size and depth; None without an answer, or for a table."""
    shape_tokens: float | None
    """Tokens on which training the shape takes exactly the compute; None without a shape."""
    why_not: str
    """Why there is no answer, as the end of a sentence; empty if there is one."""
    no_depth: str = ""
    """Why a table shows no depth, as the end of a sentence; empty for a law."""


def compute_of(flops: str | None, gpu_hours: float | None, gpu: str | None) -> Compute:
    """The amount of compute that the options state.

    Raises:
        ConfigError: unless exactly one amount is given, as a valid number.
    """
    if flops is not None and gpu_hours is not None:
        raise ConfigError("`--flops` and `--gpu-hours` say the same thing twice; drop one of them")
    if gpu is not None and gpu_hours is None:
        raise ConfigError("`--gpu` goes with --gpu-hours alone, got it with --flops; drop --gpu")
    if flops is not None:
        return Compute(
            flops=(number := _number("--flops", flops, "1e21")), said=f"{number:.3g} FLOPs"
        )
    hours = _number("--gpu-hours", str(gpu_hours), "1000")
    if gpu is None:
        raise ConfigError(f"`--gpu` must name the GPU of --gpu-hours, one of {NAMES}, got none")
    kind = gpu_named(gpu)
    rate = REACHED_FLOPS * (kind.bfloat16_flops or kind.float32_flops)
    total, unit = hours * HOUR * rate, "hour" if hours == 1 else "hours"
    return Compute(
        flops=total,
        said=f"{hours:,g} {unit} of one {kind.name}, about {total:.3g} FLOPs at "
        f"{REACHED_FLOPS:.0%} of its data sheet (an estimate)",
    )


def _number(option: str, text: str, example: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number > 0):
        raise ConfigError(f"`{option}` must be a number above 0, got {text}; for example {example}")
    return number


def ask_compute(law: str, compute: Compute, option: str, maps: Sequence[str] = ()) -> SizeAtCompute:
    """The best size, tokens and depth for an amount of compute, by the laws in a run folder or in
    the JSON of an analysis; or only size and tokens, by the losses of a table, whose columns `maps`
    name.

    Raises:
        ConfigError: when `law` has no law over parameters and tokens.
        TableError: when a table has no losses at known tokens.
    """
    known: PartLaw | TableLosses | None
    if is_table(law):
        known = read_losses(law, maps)
    elif maps:
        raise ConfigError(f"`--map` names columns of a table, got --law {law}; drop it")
    else:
        known = law_at(law, needs_tokens=option).over_tokens
    assert known is not None, "the option needs tokens"
    losses = fit_loss_law(known.losses)
    depths, template, no_depth = None, None, ""
    if isinstance(known, PartLaw):
        depths, template, count = known.law, known.template, known.law.count
    else:
        count, no_depth = known.count, known.no_depth
    cost = flops_per_token(template, count)
    found = answer_at(losses, depths, compute.flops, cost) if losses else None
    none = why_no_loss_law(known.losses) or "no law of loss fits these losses"
    why_not = found.why_not if found else none
    shape = None
    if found and found.depth and template and not why_not:
        depth = max(template.least_depth, round(found.depth))
        shape = scaled_shape(template, found.params, depth, count)
    return SizeAtCompute(
        compute=compute,
        count=count,
        found=found,
        shape=shape,
        shape_tokens=compute.flops / shape.train_flops_per_token if shape else None,
        why_not=why_not,
        no_depth=no_depth,
    )


def compute_lines(answer: SizeAtCompute) -> Iterator[str]:
    """Yields the answer, or why there is none, line by line."""
    if answer.why_not or answer.found is None:
        yield f"No answer for {answer.compute.said}: {answer.why_not}."
        return
    found = answer.found
    yield (
        f"For {answer.compute.said}: {_counted(found.params, found.params_interval)} "
        f"{answer.count.unit_in_full}, {_counted(found.tokens, found.tokens_interval)} tokens, "
        f"{_depth_text(found)}."
    )
    if answer.no_depth:
        yield f"Depth is not shown: {answer.no_depth}."
    low, high = found.loss_interval
    yield f"Expected loss {found.loss:.3f} nats (95 %: {low:.3f} to {high:.3f})."
    yield from _shape_lines(answer)
    yield from _cost_lines(found)
    if found.times_beyond > 1:
        yield (
            f"Extrapolated: it is {found.times_beyond:.3g} times the compute of the ladder's "
            "largest training; the intervals hold as far as the laws do."
        )


def _depth_text(found: ComputeAnswer) -> str:
    if found.depth is None or found.depth_interval is None:
        return "depth: not shown"
    return "depth {:.0f} (95 %: {:.0f} to {:.0f})".format(found.depth, *found.depth_interval)


def _shape_lines(answer: SizeAtCompute) -> Iterator[str]:
    if answer.shape is None or answer.shape_tokens is None:
        yield (
            "FLOPs are counted as six for each of these parameters and token, since a table does "
            "not say what else its shapes cost."
        )
        return
    yield (
        f"Shape: {shape_text(answer.shape)}: {answer.shape.size(answer.count):,} parameters; the "
        f"FLOPs are exactly those of {answer.shape_tokens:,.0f} tokens."
    )


def _cost_lines(found: ComputeAnswer) -> Iterator[str]:
    yield (
        "What being wrong costs: under other laws that these losses allow, this size costs up to "
        f"{found.multiple:.2f} times the compute (95 %)."
    )
    if found.depth_multiple is not None:
        yield (
            "The farther end of the depth's interval would cost "
            f"{found.depth_multiple:.2f} times the compute."
        )
    for rule in found.rules:
        low, high = rule.multiple_interval
        yield (
            f"{sentence(rule.name).rstrip('.')}: {rounded_count(rule.params)} parameters and "
            f"{rounded_count(rule.tokens)} tokens, which cost {rule.multiple:.2f} times the "
            f"compute (95 %: {low:.2f} to {high:.2f})."
        )
    for said in predictions(PUBLISHED["levine2020"].law, [found.params]):
        yield f"Levine et al. 2020: depth {said.depth:.0f} at the answered size."


def _counted(number: float, interval: tuple[float, float]) -> str:
    low, high = map(rounded_count, interval)
    return f"{rounded_count(number)} (95 %: {low} to {high})"


def compute_reply(answer: SizeAtCompute, law: str) -> Reply:
    """The reply to an amount of compute; its answer is null where there is none."""
    found = None if answer.why_not else answer.found
    said = " ".join(compute_lines(answer))
    cause = Statement(name="Law" if found else "NoLaw", text=answer.why_not or said, values={})
    question = AskedQuestion(
        source=law, run=None, count=answer.count.value, budget=None, flops=answer.compute.flops,
        horizon=None, data={"law": law}, held={},
    )  # fmt: skip
    return Reply(
        command="ask",
        answers=(
            StatedAnswer(
                question=question,
                answer=_finding(found, answer) if found and found.depth else None,
                verdict=StatedVerdict(
                    kind=Kind.BY_LAW if found else Kind.NO_ANSWER,
                    reason=said, cause=cause,
                ),
            ),
        ),
        at_compute=AtCompute(
            answer=found, shape_tokens=answer.shape_tokens, why_not=answer.why_not
        ),
    )  # fmt: skip


def _finding(found: ComputeAnswer, answer: SizeAtCompute) -> BestDepth:
    return BestDepth(
        depth=found.depth, interval=found.depth_interval, loss=found.loss,
        shape=Sizes.model_validate(answer.shape) if answer.shape else None,
    )  # fmt: skip
