"""The answer at the target of a study, in the form that programs read."""

from pathlib import Path

from fathom.search.analysis.law import usable
from fathom.search.analysis.weighed_laws import law_names
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.contract.questions import study_question
from fathom.search.contract.reply import (
    BestDepth,
    Brings,
    ByLaw,
    NextTraining,
    Price,
    Said,
    StatedAnswer,
    StatedVerdict,
    VerdictKind,
)
from fathom.search.contract.trainings import sizes_of
from fathom.search.report.text import target_text
from fathom.search.scheduling.outlook import Offer, Outlook


def target_answer(conclusion: Conclusion, run: Path) -> StatedAnswer | None:
    """The answer at a study's target, with the trainings that would narrow it most; None without a
    target."""
    outlook = conclusion.outlook
    if outlook is None:
        return None
    text = target_text(outlook)
    values = {
        "until_width": outlook.until_width,
        "width": outlook.width,
        "law_weights": outlook.weights,
        "hour_trainings": outlook.hour.trainings if outlook.hour else None,
        "hour_width": outlook.hour.width if outlook.hour else None,
    }
    return StatedAnswer(
        question=study_question(outlook.params, conclusion.config, run, None),
        answer=_finding(outlook, conclusion) if outlook.depth else None,
        verdict=StatedVerdict(
            kind=VerdictKind.BY_LAW if outlook.depth else VerdictKind.NO_ANSWER,
            settled=False,
            reason=text,
            cause=Said(name="AtTarget", text=text, values=values),
            remedy=None,
        ),
        costs=(),
        next=tuple(_training(offer, outlook) for offer in outlook.offers),
        command=conclusion.resume or None,
        evidence=None,
    )


def _finding(outlook: Outlook, conclusion: Conclusion) -> BestDepth:
    fitted = [optimum.budget for optimum in usable(conclusion.optima)] or conclusion.config.budgets
    assert outlook.depth is not None, "a target without a depth has no finding"
    return BestDepth(
        depth=outlook.depth, interval=outlook.interval, probabilities=(), not_ruled_out=(),
        shallowest_depth=None, lowest_depth=None, loss=None, chance_of_cost=None, shape=None,
        by_law=ByLaw(
            law=law_names(outlook.weights),
            weights=outlook.weights,
            extrapolated=outlook.params > max(fitted),
            times_beyond=outlook.params / max(fitted),
            params_range=(min(fitted), max(fitted)),
        ),
    )  # fmt: skip


def _training(offer: Offer, outlook: Outlook) -> NextTraining:
    return NextTraining(
        shape=sizes_of(offer.shape),
        seed=offer.seed,
        tokens=offer.tokens,
        price=Price(flops=offer.flops, seconds=offer.seconds or None),
        brings=Brings(
            text=f"narrows the best depth at {outlook.params:,} parameters",
            doubt_left=1 - offer.gain,
        ),
    )
