"""Answers at equal operations, seconds or tokens beside those of a study, as rows and sentences."""

from collections.abc import Sequence

from fathom.search.analysis.equal_spend import (
    FEWEST_EVALUATIONS,
    LEAST_SHARE,
    MISREAD,
    UNEVEN,
    Coin,
    EqualSpend,
    NotRead,
    WhyNot,
)
from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion.findings import Findings
from fathom.search.formatting import amount_text, format_count
from fathom.search.report import text

READ = (
    "Rows of equal FLOPs, seconds or tokens are estimates from learning curves, without new "
    "training, at the most that every finished shape has spent."
)
"""What the rows are, in short."""
HOW_READ = (
    "A shape that spent more counts with its final loss plus a difference that is read off its "
    "curve at the constant rate: between the tokens before its cool-down and the share of them "
    "that the amount pays for. This takes a cool-down to gain as much after a shorter training. "
    f"Intervals allow for an error of {100 * MISREAD:.0f} % of the difference. `Read from` is the "
    "smallest of these shares. A study with `train_flops` measures at equal FLOPs, and one with "
    "`train_seconds` at equal seconds."
)
"""How they come about, for the page."""


def equal_rows(conclusion: Findings) -> list[dict[str, str]]:
    """Returns rows, heading -> text: of each budget its own answer, then those at equal amounts;
    none where no trial says these."""
    return [
        row
        for optimum in conclusion.optima
        if (read := _read_of(conclusion, optimum.budget))
        for row in (
            _row(optimum, "as searched", text.horizon_text(optimum), ""),
            *(_read_row(each) for each in read),
        )
    ]


def equal_notes(conclusion: Findings) -> list[str]:
    """Returns sentences: what the rows are, where seconds were measured, and why answers are
    missing."""
    read = [each for each in conclusion.equal_spends if isinstance(each, EqualSpend)]
    notes = [READ] if read else []
    notes += [
        _times_text(device, [each for each in read if each.device == device])
        for device in dict.fromkeys(each.device for each in read if each.device)
    ]
    missing: dict[tuple[str, str], list[str]] = {}
    for answer in conclusion.equal_spends:
        if isinstance(answer, NotRead):
            key = answer.coin.value, why_not_text(answer)
            missing.setdefault(key, []).append(format_count(answer.budget))
    return notes + [
        f"No answer at equal {coin} for {text.joined(budgets)}: {why}."
        for (coin, why), budgets in missing.items()
    ]


def why_not_text(answer: NotRead) -> str:
    """Returns why nothing was read, as half a sentence, with what helps."""
    keys = {Coin.FLOPS: "`train_flops`", Coin.SECONDS: "`train_seconds`"}
    measure = f"use {keys[answer.coin]}, or " if answer.coin in keys else ""
    value = _percent(answer.value or 0.0)
    return {
        WhyNot.NO_CONSTANT_RATE: (
            "the cool-down begins too early, and a loss before the end of a training stands for a "
            f"shorter one only at a constant rate; {measure}search with a lower `train.cooldown`"
        ),
        WhyNot.OTHER_SCHEDULE: (
            "the schedule of `train.command` is not known, and where its rate falls, a loss before "
            "the end is not that of a shorter training; train each depth on tokens of its own"
        ),
        WhyNot.PRETRAINING: (
            "a shorter training would have another share of `objective.pretraining`; train each "
            "depth on tokens of its own"
        ),
        WhyNot.PATIENCE: (
            "with `train.patience` a trial counts with its lowest evaluation, which may not be its "
            f"last; {measure}search without it"
        ),
        WhyNot.AUTO_SIZING: (
            "with `train.auto_sizing` models shrink while they train, so that later tokens cost "
            "less; search without it"
        ),
        WhyNot.TOO_EARLY: (
            f"depth {answer.depth} would be read at {value} of its training, and the least is "
            f"{_percent(LEAST_SHARE)}; {measure}search a narrower `space.depth`"
        ),
        WhyNot.FEW_EVALUATIONS: (
            f"a trial of depth {answer.depth} has fewer than {FEWEST_EVALUATIONS} evaluations at "
            "the constant rate from where it would be read; raise `train.evaluations`"
        ),
        WhyNot.NOT_TIMED: (
            f"depth {answer.depth} was not timed on the device that timed most depths; search on "
            "devices of one kind"
        ),
        WhyNot.UNEVEN_TIMES: (
            f"seconds of a token differ by {value} among trials of a depth, and the most is "
            f"{_percent(UNEVEN)}; search on an idle machine, with "
            "`resources.max_concurrent_trials: 1`"
        ),
    }[answer.why]


def _read_of(conclusion: Findings, budget: int) -> list[EqualSpend]:
    return [
        each
        for each in conclusion.equal_spends
        if isinstance(each, EqualSpend) and each.budget == budget
    ]


def _read_row(answer: EqualSpend) -> dict[str, str]:
    amount = amount_text(answer.amount, answer.coin.value)
    least = min(share for _, share in answer.shares)
    return _row(answer.optimum, f"equal {answer.coin.value}", amount, _percent(least))


def _row(optimum: Optimum, compared: str, amount: str, least: str) -> dict[str, str]:
    return {
        "budget": format_count(optimum.budget),
        "at": compared,
        "amount": amount,
        "depth": str(optimum.optimal_depth or ""),
        "95 % interval": text.interval(optimum),
        "not ruled out": text.depths_not_ruled_out(optimum),
        "verdict": optimum.kind.value,
        "read from": least,
    }


def _times_text(device: str, answers: Sequence[EqualSpend]) -> str:
    """Where and how well seconds are known."""
    spreads = [each.spread for each in answers if each.spread is not None]
    differ = "no depth was timed twice"
    if spreads:
        differ = f"trials of a depth differ by up to {_percent(max(spreads))} (standard deviation)"
    return (
        f"Seconds are those of training steps on {device}, the median of each depth; {differ}. "
        "They hold for this device and the load that it had; on another, another depth may be best."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
