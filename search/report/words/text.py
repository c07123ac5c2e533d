"""The text of a report: answers, their parts, and fitted laws."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import exp

from fathom.models.shape import Count, Shape
from fathom.models.spend import OTHER_COINS, Coin
from fathom.models.unit import Unit
from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.analysis.answer.verdict import Kind, NothingShallower
from fathom.search.analysis.laws.law import LOGARITHMIC, Law
from fathom.search.analysis.laws.null_laws import CUBE_ROOT, SAME_DEPTH, NullLaw, as_good
from fathom.search.analysis.laws.token_law import TokenLaw
from fathom.search.analysis.losses.stalls import stalled_by_depth, too_low
from fathom.search.analysis.spending.measured_seconds import measured_seconds
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import (
    budget_text,
    exact_count,
    format_count,
    format_seconds,
    ranges,
    rounded_count,
    shell_command,
    spend_text,
)
from fathom.search.study.keys.groups import DECAYS
from fathom.search.words import nothing_shallower

MOST_HORIZONS = 4
"""Most horizons that are listed one by one; a longer list would be wider than a figure."""
METRIC_NAMES = {"bleu": "BLEU", "chrf": "chrF"}
"""Names of metrics that are not written like their keys."""
SUMMARY = (
    *("budget", "tokens", "count", "depth", "95 % interval", "not ruled out", "verdict"),
    *("loss (nats)", "best trained shape"),
)
"""Columns of the Markdown table."""


def answer(optimum: Optimum) -> str:
    """Returns the answer of a budget in one line."""
    return f"{question(optimum)}: {finding(optimum)}"


def finding(optimum: Optimum) -> str:
    """Returns the best depth, its interval, the depths that are not ruled out, and the verdict."""
    known = (
        f", not ruled out {depths_not_ruled_out(optimum)}"
        if len(not_ruled_out(optimum)) > 1
        else ""
    )
    depth = f"{depth_text(optimum)}{interval(optimum, ' [', ']')}{known}"
    return f"{depth}, {optimum.kind.value}"


def summary(optima: Sequence[Optimum]) -> str:
    """Returns a sentence on what to train at all settled budgets, and one on open budgets that are
    alike: `Train depth 1 at 10k and depth 2 at 20k and 40k parameters.`"""
    settled = [optimum for optimum in optima if optimum.kind.settled]
    sentences = []
    if settled:
        alike = groupby(settled, key=_model)
        depths = [
            f"{depth} at {joined([format_count(optimum.budget) for optimum in found])}"
            for depth, found in alike
        ]
        sentences.append(f"Train {joined(depths)} {settled[0].count.unit}.")
    others = [optimum for optimum in optima if not optimum.kind.settled]
    for estimate, open_yet in groupby(others, key=lambda o: f"{o.kind.value}; {estimate_text(o)}"):
        sizes = joined([budget_text(optimum.budget, optimum.count) for optimum in open_yet])
        sentences.append(f"{sizes}: {estimate}.")
    return " ".join(sentences)


def estimate_text(optimum: Optimum) -> str:
    """Returns the depth of an answer that is not settled, as a clause."""
    if optimum.optimal_depth is None:
        return "no trial has finished"
    if isinstance(optimum.verdict.cause, NothingShallower):
        return nothing_shallower(optimum.optimal_depth)
    so_far = " so far" if optimum.kind is Kind.UNFINISHED else ""
    return f"depth {optimum.optimal_depth} is the best estimate{so_far}"


def advice(optimum: Optimum) -> str:
    """Returns a sentence on what to train at a budget, and on how sure that is."""
    within = interval(optimum, " (95\u00a0% interval: ", ")")
    if isinstance(optimum.verdict.cause, NothingShallower):
        return f"Depth {optimum.optimal_depth} is best{within}; no shallower model exists."
    if not optimum.kind.settled:
        return f"Not settled: {estimate_text(optimum)}{within}."
    chance = dict(optimum.probabilities).get(optimum.optimal_depth or 0)
    sure = f": best with {100 * chance:.0f}\u00a0% probability" if chance else ""
    return f"Train {_model(optimum)}{sure}{within}."


def _model(optimum: Optimum) -> str:
    """The best depth as text. Where the budget leaves the size free, the size of its shape is
    added; if a better size may lie beyond those tried, or is not known, so is the size's
    verdict."""
    size, best = "", optimum.best_size
    if best and optimum.shape:
        size = f" of {rounded_count(optimum.shape.params_total)} parameters"
        if best.verdict.kind not in (Kind.IDENTIFIED, Kind.PLATEAU):
            size += f" (size: {best.verdict.kind.value})"
    return f"depth {optimum.optimal_depth}{size}"


def joined(parts: Sequence[str]) -> str:
    """Returns the parts as people list them: `a, b and c`."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def question(optimum: Optimum) -> str:
    """Returns the size, the horizon and the counting rule of an answer."""
    return f"{size_text(optimum)}, {count_text(optimum.count)}"


def count_text(count: Count) -> str:
    """Returns the rule by which a size is counted, or the statement that models may have any
    size."""
    return "any size" if count.frees_size else f"{count.label} count"


def size_text(optimum: Optimum) -> str:
    """Returns the size and the horizon of an answer: `40k parameters, 600k tokens`; where the size
    is free, the amount that a trial spends."""
    size, spend = f"{format_count(optimum.budget)} {optimum.count.unit}", spend_text(optimum.spend)
    return f"{size}, {spend}" if spend and not optimum.count.frees_size else size


def question_across(optima: Sequence[Optimum]) -> str:
    """Returns the counting rule and the horizons of several budgets."""
    count, unit = count_text(optima[0].count), optima[0].spend.coin
    amounts = (spend_text(optimum.spend) for optimum in optima)
    shown = [amount.removesuffix(f" {unit}") for amount in dict.fromkeys(amounts)]
    if len(shown) > MOST_HORIZONS:  # else wider than the figure
        shown = [f"{shown[0]} to {shown[-1]}"]
    return f"{count}, {', '.join(shown)} {unit}" if unit else count


def depth_text(optimum: Optimum) -> str:
    """Returns `depth 4`, or `no depth yet`."""
    return f"depth {optimum.optimal_depth}" if optimum.optimal_depth else "no depth yet"


def interval(optimum: Optimum, before: str = "", after: str = "") -> str:
    """Returns the 95 % interval, if there is one; an end is open if the best depth may lie beyond
    it."""
    text = _interval(optimum, "{} or deeper", "{} or shallower")
    return f"{before}{text}{after}" if text else ""


def short_interval(optimum: Optimum) -> str:
    """Returns the interval in few letters: `12+` if it is open above, `≤12` if below."""
    return _interval(optimum, "{}+", "≤{}")


def _interval(optimum: Optimum, open_above: str, open_below: str) -> str:
    if not isinstance(optimum, Located):
        return ""
    low, high = optimum.interval
    if is_open_above(optimum):
        return open_above.format(low)
    if is_open_below(optimum):
        return open_below.format(high)
    return ranges(range(low, high + 1))


def is_open_above(optimum: Located) -> bool:
    """Returns True if the best depth may lie beyond the deepest one that finished."""
    return optimum.kind is Kind.EDGE and optimum.interval[1] == optimum.depths[-1].depth


def is_open_below(optimum: Located) -> bool:
    """Returns True if the best depth may lie beyond the shallowest one that finished."""
    shallowest = optimum.depths[0].depth
    is_at_end = optimum.interval[0] == shallowest > optimum.least_depth
    return optimum.kind is Kind.EDGE and is_at_end


def depths_not_ruled_out(optimum: Optimum) -> str:
    """Returns the depths that are not ruled out, for example `5-9`."""
    return ranges(not_ruled_out(optimum))


def unfinished_text(conclusion: Findings) -> str:
    """Returns which budgets are unfinished, with the command that resumes them; empty if all are
    finished."""
    if not conclusion.unfinished:
        return ""
    budgets = ", ".join(budget_text(b, conclusion.count) for b in conclusion.unfinished)
    return f"Unfinished: the search of {budgets} has not ended. To resume it: {conclusion.resume}"


def decay_text(conclusion: Findings) -> str:
    """Returns which budgets repeat their data at a single weight decay, and what to do; empty if
    none does."""
    repeated = conclusion.repeats_at_one_decay
    if not repeated:
        return ""
    budgets = ", ".join(budget_text(budget, conclusion.count) for budget in repeated)
    return (
        f"trainings of {budgets} take up to {max(repeated.values()):.1f} epochs of their data. "
        "The best weight decay then differs by shape, but only one decay was tried; compare decays "
        f"by `fathom check`, or bracket them by `confirm.decays: {DECAYS}`"
    )


def stalled_text(conclusion: Findings) -> str:
    """Returns how many trials stalled, by budget and depth; empty if none did."""
    parts = [
        f"{stalled} of {counted(trained, 'training')} of depth {depth} at"
        f" {budget_text(optimum.budget, optimum.count)}"
        for optimum in conclusion.optima
        for depth, (stalled, trained) in stalled_by_depth(
            conclusion.records_of(optimum.budget), conclusion.stalls[optimum.budget]
        ).items()
    ]
    return f"{joined(parts)} stalled; the answer leaves them out" if parts else ""


def too_low_text(conclusion: Findings) -> str:
    """Returns which seeds ended far too low, by budget and depth; empty if none did."""
    parts = [
        f"seed {record.spec.seed} of depth {record.spec.shape.depth} at"
        f" {budget_text(optimum.budget, optimum.count)} ended at {record.loss:.4f} nats"
        for optimum in conclusion.optima
        for record in too_low(
            conclusion.records_of(optimum.budget), conclusion.stalls[optimum.budget]
        )
    ]
    far = "far below its other seeds and the curve of the other depths"
    return f"{joined(parts)}, {far}; the answer leaves it out" if parts else ""


def seconds_text(conclusion: Findings) -> str:
    """Returns the devices on which trials spent a study's seconds, and how far from these the times
    were; empty for a study without seconds."""
    measured = [
        (budget_text(optimum.budget, optimum.count), found)
        for optimum in conclusion.optima
        if (found := measured_seconds(conclusion.records_of(optimum.budget)))
    ]
    if not measured:
        return ""
    devices = list(dict.fromkeys(name for _, found in measured for name in found.devices))
    off = (
        f"{counted(found.trials, 'whole training')} of {budget} took {found.median:.3g} s in the"
        f" median ({100 * found.median_off:+.1f} %), the furthest off {found.worst:.3g} s"
        f" ({100 * found.worst_off:+.1f} %)"
        for budget, found in measured
    )
    where = joined(devices) if devices else "a device without a name"
    asked = joined(list(dict.fromkeys(f"{found.asked:g}" for _, found in measured)))
    return f"{asked} s of training steps on {where}; {'; '.join(off)}"


def offered_text(conclusion: Findings, optimum: Optimum, noise: float | None = None) -> str:
    """Returns what to train next for an open answer, with what it costs and brings; empty where
    nothing is offered. `noise` between seeds, nats, is measured unless it is stated."""
    parts = []
    for offer in conclusion.offers(optimum, noise):
        choice, costs = offer.training, offer.costs(optimum)
        shown = [
            f"depth {choice.shape.depth}, d_model {choice.shape.d_model:,}, seed {choice.seed}",
            *(f"rate x{scale:g}" for scale in [choice.rate_scale] if scale != 1),
            *(f"decay x{scale:g}" for scale in [choice.decay_scale] if scale != 1),
            *(f"{rounded_count(tokens)} tokens" for tokens in [costs.tokens] if tokens),
            *(f"about {format_seconds(seconds)}" for seconds in [costs.seconds] if seconds),
        ]
        parts.append(f"{', '.join(shown)}; it {offer.brings}")
    return f"next to train: {'; '.join(parts)}" if parts else ""


def next_steps(conclusion: Findings, source: str, horizon: str | None = None) -> list[str]:
    """Returns the commands that use the answers; `source` is a run folder or its best.yaml, and
    `horizon` chooses one of several.

    The commands name the largest budget whose depth is settled; there are none if no depth is.
    """
    chosen = to_train(conclusion)
    if chosen is None:
        return []
    unit = "s" * (chosen.count is Count.TRAIN_SECONDS)
    which = [source, "--params", exact_count(chosen.budget) + unit]
    which += ["--horizon", horizon] if horizon else []
    return [shell_command("fathom", verb, *which) for verb in ("train", "export")]


def to_train(conclusion: Findings) -> Optimum | None:
    """Returns the largest budget whose depth is settled and whose shape is known."""
    known = [optimum for optimum in conclusion.optima if optimum.kind.settled and optimum.shape]
    return max(known, key=lambda optimum: optimum.budget, default=None)


def trials(optimum: Optimum) -> str:
    """Returns the numbers of trials by outcome, for example `12 finished, 3 stopped`."""
    numbers = {outcome.replace("_", " "): number for outcome, number in optimum.trials.items()}
    return ", ".join(f"{number} {outcome}" for outcome, number in numbers.items() if number)


def metric_name(kind: str) -> str:
    """Returns the name of a metric in a sentence, for example `exact match` or `BLEU`."""
    return METRIC_NAMES.get(kind, kind.replace("_", " "))


def metric_title(kind: str) -> str:
    """Returns the name of a metric in a title, for example `Exact match` or `BLEU`."""
    return METRIC_NAMES.get(kind, metric_name(kind).capitalize())


def sentence(text: str) -> str:
    """Returns the text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def counted(number: int, noun: str) -> str:
    """Returns number and noun, for example `1 trial` or `2 trials`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def optional(value: float | None, form: str) -> str:
    """Returns the number in a format such as `.2f`, or an empty text for None."""
    return "" if value is None else format(value, form)


def loss_text(nats: float | None, unit: Unit) -> str:
    """Returns a loss in a unit; empty for None."""
    return "" if nats is None else f"{unit.value(nats):.4f}"


def answer_row(optimum: Optimum) -> dict[str, str]:
    """Returns a budget's answer as text by heading; an unknown value is empty."""
    shape = optimum.shape
    return {
        "budget": format_count(optimum.budget),
        "tokens": _tokens_text(optimum),
        "count": optimum.count.label,
        "depth": str(optimum.optimal_depth or ""),
        "95 % interval": interval(optimum),
        "not ruled out": depths_not_ruled_out(optimum),
        "verdict": optimum.kind.value,
        optimum.unit.label: loss_text(optimum.loss, optimum.unit),
        "best trained shape": shape_text(shape) if shape else "",
        "its parameters, total": f"{shape.params_total:,}" if shape else "",
        "its non-embedding": f"{shape.params_non_embedding:,}" if shape else "",
        **({"its active": f"{shape.params_active:,}"} if shape and shape.experts else {}),
        "trials": trials(optimum) or "none",
    }


def _tokens_text(optimum: Optimum) -> str:
    """Returns the tokens of a trial as text. If trials spend another unit, the tokens of the best
    shape and its amount; where no tokens are known, the horizon in its own unit."""
    if optimum.spend.coin in OTHER_COINS:
        return f"{rounded_count(optimum.tokens)} ({spend_text(optimum.spend)})"
    if optimum.spend.coin is Coin.TOKENS:
        return rounded_count(optimum.tokens)
    return spend_text(optimum.spend)


def layers_text(shape: Shape) -> str:
    """Returns the number of layers, and how many are in each stack or have each mixer: `8`,
    `8 (6-2)` for 6 in the encoder and 2 in the decoder, or `8 (6 M + 2 A)` for 6 with state spaces
    and 2 with attention."""
    parts = ""
    if shape.encoder_depth:
        parts = f" ({shape.encoder_depth}-{shape.decoder_depth})"
    if shape.state_space:
        parts = f" ({shape.state_layers} M + {shape.depth - shape.state_layers} A)"
    return f"{shape.depth}{parts}"


def groups_text(shape: Shape) -> str:
    """Returns the number of groups, to follow the width in a text; empty if matrices are whole."""
    return f" in {shape.groups} groups" if shape.groups > 1 else ""


def shape_text(shape: Shape) -> str:
    """Returns the sizes of a trained shape as text, with its own depth: a curve may be lowest at
    another."""
    return (
        f"depth {layers_text(shape)}, d_model {shape.d_model:,}{groups_text(shape)}, "
        f"ff_ratio {shape.ff_ratio:.2f}, {counted(shape.n_heads, 'head')}{active_text(shape)}"
    )


def active_text(shape: Shape, unit: str = " parameters active") -> str:
    """Returns how many of all parameters a token uses, after a comma; empty if it uses all."""
    if not shape.experts:
        return ""
    active, total = map(rounded_count, (shape.params_active, shape.params_total))
    return f", {active} of {total}{unit}"


def untrained_text(optimum: Optimum) -> str:
    """Returns a sentence if a depth that was not trained to the end is the answer or is expected to
    be better; otherwise empty."""
    if not isinstance(optimum, Located):
        return ""
    if (depth := optimum.optimal_depth) not in {known.depth for known in optimum.depths}:
        known = f"; the best trained shape has depth {optimum.shape.depth}" if optimum.shape else ""
        return f"no trial of depth {depth} was trained to the end{known}"
    better = optimum.better
    if better is None:
        return ""
    unit = optimum.unit
    low, high = unit.interval(better.interval)
    by = f"{-unit.difference(better.nats):.4f} {unit}"
    return (
        f"depth {better.depth} was not trained to the end, and is expected to be better than depth"
        f" {optimum.optimal_depth} by {by} (95 %: {-high:.4f} to {-low:.4f})"
    )


def summary_table(optima: Sequence[Optimum]) -> str:
    """Returns the answers as a Markdown table."""
    rows = [answer_row(optimum) for optimum in optima]
    cells = [SUMMARY, ["---"] * len(SUMMARY), *([row[h] or "-" for h in SUMMARY] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def law_formula(law: Law) -> str:
    """Returns a fitted law with its numbers, for example `ln depth = -3.2 + 0.31 ln params`."""
    logarithmic = law.name == LOGARITHMIC
    sizes = ("d_model", "depth") if logarithmic else ("depth", "ln params")
    return f"ln {sizes[0]} = {law.a:.4g} + {law.b:.4g} {sizes[1]}"


def law_text(law: Law) -> str:
    """Returns a fitted law as a formula, with its error on a budget that it was not fitted to."""
    low, high = (format_count(params) for params in law.params_range)
    formula = law_formula(law)
    if law.name == LOGARITHMIC:
        formula += ", at 12 depth d_model² parameters"
    tested = "Without one of its budgets it can't be fitted"
    if law.leave_one_out_error is not None:
        depth = f"the depth by {_missed(law.leave_one_out_error)}"
        tested = f"Predicting each budget from the others, it misses {depth} on average"
    spread = f"Beyond their own errors, best depths scatter about it by {_missed(law.scatter)}"
    budgets = f"{law.budgets} budgets from {low} to {high}"
    if law.bounds:
        budgets += f", of which {law.bounds} only say on which side the best depth lies"
    return f"The {law.name} law, fitted to {budgets}: {formula}. {tested}. {spread}."


def weighed_laws_text(weights: Mapping[str, float]) -> str:
    """Returns the laws that give a depth, with their probabilities.

    >>> weighed_laws_text({"power": 1.0})
    'the power law'
    >>> weighed_laws_text({"logarithmic": 0.38, "power": 0.62})
    'the laws of depth weighed by how well they fit, power 0.62 and logarithmic 0.38'
    """
    names = sorted(weights, key=lambda name: -weights[name])
    if len(names) == 1:
        return f"the {names[0]} law"
    told = joined([f"{name} {weights[name]:.2f}" for name in names])
    return f"the laws of depth weighed by how well they fit, {told}"


def token_law_text(law: TokenLaw) -> str:
    """Returns a law over parameters and tokens as a formula, with its drift and what it was fitted
    to."""
    low, high = law.drift_interval
    sizes = " to ".join(map(format_count, law.params_range))
    tokens = " to ".join(f"{ratio:.3g}" for ratio in law.ratio_range)
    bounds = f", {law.bounds} of them on one side only" if law.bounds else ""
    tested = "without one of its budgets it can't be fitted"
    if law.leave_one_out_error is not None:
        tested = f"left-out budgets are missed by {_missed(law.leave_one_out_error)} on average"
    return (
        f"ln depth = {law.a:.4g} + {law.b:.3g} ln params + {law.c:.3g} ln tokens, from "
        f"{law.points} best depths{bounds} at {sizes} {law.count.unit_in_full} and {tokens} tokens "
        f"a parameter. Twice the tokens change the best depth by {_by_factor(law.c, low, high)}; "
        f"{tested}."
    )


def _by_factor(c: float, low: float, high: float) -> str:
    twice, least, most = (2**power for power in (c, low, high))
    return f"a factor of {twice:.2f} (95 %: {least:.2f} to {most:.2f})"


def null_law_text(law: NullLaw) -> str:
    """Returns a baseline law with its constant, for example `the same depth (12.3)`."""
    if law.name == SAME_DEPTH:
        return f"the same depth ({law.constant:.3g})"
    if law.name == CUBE_ROOT:
        also = ", which is the same aspect ratio" if law.whole_layers else ""
        return f"depth = {law.constant:.3g} params^(1/3){also}"
    return f"the same aspect ratio (d_model = {law.constant:.3g} depth)"


def null_laws_text(laws: Sequence[Law], null_laws: Sequence[NullLaw]) -> str:
    """Returns the errors of baseline laws on left-out budgets, beside that of the best fitted law;
    empty without baseline laws."""
    tested = [law for law in null_laws if law.leave_one_out_error is not None]
    if not tested:
        return ""
    missed = [f"{null_law_text(law)} by {_missed(law.leave_one_out_error)}" for law in tested]
    alike = "Laws with one constant, fitted and tested in the same way, miss left-out budgets"
    found = f"{alike}: {'; '.join(missed)}."
    if not laws:
        return found
    if laws[0].leave_one_out_error is None:
        return f"{found} A law with two constants can't be tested."
    if equal := as_good(laws[0], null_laws):
        names = " and ".join(null_law_text(law) for law in equal)
        verb = "predicts" if len(equal) == 1 else "predict"
        return f"{found} So {names} {verb} as well as the {laws[0].name} law."
    return found


def _missed(error: float | None) -> str:
    return f"a factor of {exp(error or 0.0):.2f}"
