"""Answers at equal operations, seconds or tokens, in the form that programs read."""

from fathom.search.analysis.equal_spend import Answer, NotRead
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.contract.answers import finding_of
from fathom.search.contract.reply import EqualSpending, VerdictKind
from fathom.search.report.equal_spend import why_not_text


def equal_spendings(conclusion: Conclusion) -> tuple[EqualSpending, ...]:
    """The answers of a study that are read off its learning curves."""
    return tuple(map(_stated, conclusion.equal_spends))


def _stated(answer: Answer) -> EqualSpending:
    if isinstance(answer, NotRead):
        return EqualSpending(
            budget=answer.budget, coin=answer.coin.value, amount=None, answer=None, verdict=None,
            least_share=None, device=None, spread=None, why_not=why_not_text(answer),
        )  # fmt: skip
    return EqualSpending(
        budget=answer.budget,
        coin=answer.coin.value,
        amount=answer.amount,
        answer=finding_of(answer.optimum),
        verdict=VerdictKind(answer.optimum.kind.value),
        least_share=min(share for _, share in answer.shares),
        device=answer.device or None,
        spread=answer.spread,
        why_not="",
    )
