"""Predictions of a published law or of a run's law: for one size, or a table of sizes."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import DepthLaw, Prediction, predictions, usable
from fathom.search.analysis.laws.null_laws import NullLaw, fit_null_laws
from fathom.search.analysis.laws.published import GPT3, TRILLION_NOTE
from fathom.search.analysis.laws.token_law import TokenLaw
from fathom.search.analysis.laws.weighed_laws import WeighedLaws, law_words
from fathom.search.conclusion.named_law import PUBLISHED, NamedLaw
from fathom.search.contract.reply import BudgetByLaw, LawTable, PublishedSize, SizeAnswer
from fathom.search.formatting import format_count
from fathom.search.report.terminal.tables import empty_table, print_text, terminal
from fathom.search.report.words.text import (
    law_text,
    null_laws_text,
    sentence,
    token_law_text,
    weighed_laws_text,
)
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.options import count_of

MOST_LAYERS = 10_000
"""Number of layers above which the end of an interval is printed as `over 10,000`."""
USELESS = 10
"""Ratio of the ends of an interval from which on a line says that the interval is of little use."""


def predict_size(params: str, law: str, tokens: str | None = None) -> SizeAnswer:
    """The best depth for a size, and for `tokens` if given; `law` is `levine2020`, a run folder, or
    the JSON of `fathom analyse`.

    Raises:
        ConfigError: when the size is no number, there is no such law, or it has no depth there.
    """
    size = count_of("--params", params)
    try:
        return _size_answer(size, law, tokens)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"--params {params}: {error}") from error


def _size_answer(size: int, law: str, tokens: str | None) -> SizeAnswer:
    if tokens is not None:
        found = _named(law, needs_tokens="--tokens")
        said = found.law.predict(size, count_of("--tokens", tokens))
        return SizeAnswer(prediction=said, note=_note(found.law))
    found = _over_sizes(law)
    null_laws = fit_null_laws(found.optima)
    return SizeAnswer(
        prediction=found.law.predict(size),
        weights=found.law.weights if isinstance(found.law, WeighedLaws) else {},
        null_laws=tuple(said for null in null_laws for said in predictions(null, [size])),
        note=_note(found.law, null_laws),
    )


def _named(law: str, *, needs_tokens: str = "") -> NamedLaw:
    # Here, because it needs yaml, which the published law does without.
    from fathom.search.conclusion.law_at import law_at

    return law_at(law, needs_tokens=needs_tokens)


def _over_sizes(law: str) -> NamedLaw:
    """The law over sizes alone that `--law` names; raises `ConfigError` if that law needs
    tokens."""
    found = PUBLISHED.get(law) or _named(law)
    if not found.over_tokens:
        return found
    remedy = "give --tokens"
    if Path(law).is_dir():
        from fathom.search.study.runs import runs_of  # here, as in `_named`

        known = ", ".join(run.horizon for run in runs_of(Path(law)) if run.horizon)
        remedy += f", or choose one of {known} with --horizon"
    raise ConfigError(f"`--law {law}` is over parameters and tokens; {remedy}")


def _note(law: DepthLaw, null_laws: Sequence[NullLaw] = ()) -> str:
    """Sentence on how well a law and the baseline laws predict left-out budgets; empty for a
    published law."""
    match law:
        case TokenLaw():
            return sentence(token_law_text(law))
        case WeighedLaws(laws=laws):
            return f"{law_text(laws[0])} {null_laws_text(laws, null_laws)}".rstrip()
    return ""


def predict_table(law: str) -> LawTable:
    """Predictions at several sizes: at those of GPT-3 for `levine2020`; at a run's budgets for the
    run's own law and the null laws.

    Raises:
        ConfigError: when the run has no law.
    """
    found = _over_sizes(law)
    if not found.optima:
        published = (
            PublishedSize(
                model=size.name, trained_depth=size.depth, trained_d_model=size.d_model,
                prediction=found.law.predict(size.params),
            )
            for size in GPT3
        )  # fmt: skip
        return LawTable(published=tuple(published), note=TRILLION_NOTE)
    used, null_laws = usable(found.optima), fit_null_laws(found.optima)
    rows = (_budget_row(o, found.law, null_laws, is_used=o in used) for o in found.optima)
    return LawTable(budgets=tuple(rows), note=_note(found.law, null_laws))


def print_prediction(answer: SizeAnswer) -> None:
    """Prints the prediction, a warning if it is extrapolated, and the predictions of null laws."""
    prediction, tokens = answer.prediction, answer.prediction.tokens
    width = f", d_model {prediction.d_model:.0f}" if prediction.d_model else ""
    whose = weighed_laws_text(answer.weights) if answer.weights else prediction.law
    horizon = f", {format_count(tokens)} tokens" if tokens else ""
    outside = ", or its tokens, lie outside the ranges" if tokens else " lies outside the range"
    lines = (
        _too_wide(prediction),
        f"{format_count(prediction.params)} parameters{horizon}: "
        f"depth {_with_interval(prediction)}{width} by {whose}",
        *(f"  {null.law}: {_with_interval(null)}" for null in answer.null_laws),
        answer.note,
        f"This size{outside} that the law was fitted on." if prediction.extrapolated else "",
    )
    for line in filter(None, lines):
        print_text(line, terminal())


def _with_interval(prediction: Prediction) -> str:
    interval = ""
    if prediction.interval:
        interval = f" (95 %: {' to '.join(map(_layers, prediction.interval))})"
    return f"{prediction.depth:.1f}{interval}"


def _layers(depth: float) -> str:
    return f"{depth:.1f}" if depth < MOST_LAYERS else f"over {MOST_LAYERS:,}"


def _too_wide(prediction: Prediction) -> str:
    """A line to print if the interval of a prediction is too wide to be of use; empty otherwise."""
    if not prediction.interval or prediction.interval[1] < USELESS * prediction.interval[0]:
        return ""
    low, high = map(_layers, prediction.interval)
    return (
        f"The law says next to nothing of this size: {low} to {high} layers are possible. More "
        "budgets, or larger ones nearer to this size, would narrow the interval."
    )


def print_table(table: LawTable) -> None:
    """Prints the table and explains its marks."""
    found = [*(r.prediction for r in table.published), *(r.prediction for r in table.budgets)]
    tables = [_published_table(table.published)] if table.published else []
    tables += [_budget_table(table.budgets), _null_table(table.budgets)] if table.budgets else []
    console = terminal()
    for shown in tables:
        console.print(shown)
    print_text(table.note, console)
    if any(each and each.extrapolated for each in found):
        print_text("* outside the sizes that the law was fitted on", console)


def _budget_row(
    optimum: Optimum, law: DepthLaw, null_laws: Sequence[NullLaw], *, is_used: bool
) -> BudgetByLaw:
    size = [optimum.budget]
    null_depths = {said.law: said.depth for null in null_laws for said in predictions(null, size)}
    return BudgetByLaw(
        budget=optimum.budget,
        measured_depth=optimum.optimal_depth,
        measured_interval=optimum.interval,
        verdict=optimum.kind,
        fitted=is_used,
        null_laws={null.name: null_depths.get(null.name) for null in null_laws},
        prediction=next(predictions(law, size), None),
    )


def _published_table(rows: Sequence[PublishedSize]) -> Table:
    heads = ("GPT-3", "trained L, d", "N = 12 L d^2", "depth", "d_model")
    table = empty_table("Sizes of GPT-3 by Levine et al. 2020", heads)
    for row in rows:
        was = f"{row.trained_depth}, {row.trained_d_model}" if row.trained_depth else "-"
        size = format_count(row.prediction.params)
        table.add_row(row.model, was, size, *_depth_and_width(row.prediction))
    return table


def _budget_table(rows: Sequence[BudgetByLaw]) -> Table:
    law = next((row.prediction.law for row in rows if row.prediction), "")
    heads = ("budget", "measured", "95 %", "verdict", "by law", "95 %", "d_model")
    table = empty_table(f"Budgets of the run, and {law_words(law)}", heads)
    for row in rows:
        measured = row.measured_interval
        predicted = row.prediction.interval if row.prediction else None
        depth, width = _depth_and_width(row.prediction)
        table.add_row(
            format_count(row.budget),
            str(row.measured_depth or "-"),
            "{}-{}".format(*measured) if measured else "-",
            row.verdict if row.fitted else f"{row.verdict}, not fitted",
            depth,
            "{:.1f}-{:.1f}".format(*predicted) if predicted else "-",
            width,
        )
    return table


def _null_table(rows: Sequence[BudgetByLaw]) -> Table:
    heads = ("law", *(format_count(row.budget) for row in rows))
    table = empty_table("Depths by laws with one constant", heads)
    for name in rows[0].null_laws:
        depths = [row.null_laws[name] for row in rows]
        table.add_row(name, *("-" if depth is None else f"{depth:.1f}" for depth in depths))
    return table


def _depth_and_width(found: Prediction | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    return f"{found.depth:.1f}{'*' if found.extrapolated else ''}", f"{found.d_model:.0f}"
