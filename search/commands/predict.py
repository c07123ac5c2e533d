"""Predictions of a published law or of a run's law: for one size, or a table of sizes."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fathom.search.analysis.law import Law, Prediction, usable
from fathom.search.analysis.null_laws import NullLaw, fit_null_laws
from fathom.search.analysis.optimum import Optimum, find_optima
from fathom.search.analysis.published import GPT3, LEVINE, TRILLION_NOTE, levine2020
from fathom.search.analysis.token_law import TokenPrediction
from fathom.search.analysis.weighed_laws import WeighedLaws, law_words
from fathom.search.conclusion.findings import laws_of
from fathom.search.conclusion.token_laws import PartLaw, read_token_law
from fathom.search.contract.reply import (
    BudgetByLaw,
    LawTable,
    PublishedSize,
    SizeAnswer,
)
from fathom.search.formatting import format_count, shell_command
from fathom.search.report.terminal.tables import empty_table
from fathom.search.report.text import (
    law_text,
    null_laws_text,
    sentence,
    token_law_text,
    weighed_laws_text,
)
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.options import count_of

MOST_LAYERS = 10_000
"""Layers beyond which the end of an interval is printed as `over 10,000`."""
USELESS = 10
"""Factor between the ends of an interval from which on it is said to say next to nothing."""


def predict_size(params: str, law: str, tokens: str | None = None) -> SizeAnswer:
    """The best depth for a size, and for `tokens` if there are any; `law` is `levine2020`, a run
    folder, or the JSON of `fathom analyse`.

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
        token_law = part_law_at(law, "--tokens").law
        found = token_law.predict(size, count_of("--tokens", tokens))
        return SizeAnswer(prediction=found, note=sentence(token_law_text(token_law)))
    if law == LEVINE:
        return SizeAnswer(prediction=levine2020(size))
    optima = optima_of(law)
    laws, null_laws = laws_of(optima, Path(law)), fit_null_laws(optima)
    return SizeAnswer(
        prediction=laws.predict(size),
        weights=laws.weights,
        null_laws=_predictions(null_laws, size),
        note=_note(laws.laws, null_laws),
    )


def part_law_at(law: str, option: str) -> PartLaw:
    """The law over parameters and tokens of a run folder, or of the JSON of an analysis, which an
    option needs.

    Raises:
        ConfigError: when there is none.
    """
    path = Path(law)
    if law == LEVINE:
        raise ConfigError(
            f"`{option}` needs a law over parameters and tokens, which --law {LEVINE} is not; "
            "leave it out"
        )
    if not path.is_dir():
        return read_token_law(path)
    folder = RunFolder(path)
    folder.check_files()
    if not folder.token_law.exists():
        from fathom.search.study.preflight import load_folder

        if load_folder(path)[1].horizons:
            again = shell_command("fathom", "report", path)
            raise ConfigError(f"{path} has no law over parameters and tokens; `{again}` says why")
        raise ConfigError(
            f"`{option}` must be left out with {path}, which was searched at one horizon; a table "
            "of several has a law over tokens: see `fathom analyse --horizons`"
        )
    return read_token_law(folder.token_law)


def _note(laws: Sequence[Law], null_laws: Sequence[NullLaw]) -> str:
    """How well the best law predicts left-out budgets, and how well the null laws do."""
    return f"{law_text(laws[0])} {null_laws_text(laws, null_laws)}".rstrip()


def _predictions(laws: Sequence[NullLaw], size: float) -> tuple[Prediction, ...]:
    """What each law says of a size at which it has a depth."""
    found = []
    for law in laws:
        with suppress(ValueError):
            found.append(law.predict(size))
    return tuple(found)


def predict_table(law: str) -> LawTable:
    """The law at several sizes: those of GPT-3 for `levine2020`, or a run's budgets for its own law
    and the null laws.

    Raises:
        ConfigError: when the run has no law.
    """
    if law == LEVINE:
        published = (
            PublishedSize(
                model=size.name, trained_depth=size.depth, trained_d_model=size.d_model,
                prediction=levine2020(size.params),
            )
            for size in GPT3
        )  # fmt: skip
        return LawTable(published=tuple(published), note=TRILLION_NOTE)
    optima = optima_of(law)
    fitted, used, null_laws = laws_of(optima, Path(law)), usable(optima), fit_null_laws(optima)
    rows = (_budget_row(found, fitted, null_laws, is_used=found in used) for found in optima)
    return LawTable(budgets=tuple(rows), note=_note(fitted.laws, null_laws))


def print_prediction(answer: SizeAnswer) -> None:
    """Prints the prediction, a warning if it is extrapolated, and what the null laws say."""
    prediction = answer.prediction
    width = f", d_model {prediction.d_model:.0f}" if prediction.d_model else ""
    if vague := _too_wide(prediction):
        print(vague)
    tokens = prediction.tokens if isinstance(prediction, TokenPrediction) else None
    horizon = f", {format_count(tokens)} tokens" if tokens else ""
    print(
        f"{format_count(prediction.params)} parameters{horizon}: "
        f"depth {_with_interval(prediction)}{width} by {_whose(answer)}"
    )
    for null in answer.null_laws:
        print(f"  {null.law}: {_with_interval(null)}")
    if answer.note:
        print(answer.note)
    if prediction.extrapolated and tokens:
        print("This size, or its tokens, lie outside the ranges that the law was fitted on.")
    elif prediction.extrapolated:
        print("This size lies outside the range that the law was fitted on.")


def _whose(answer: SizeAnswer) -> str:
    return weighed_laws_text(answer.weights) if answer.weights else answer.prediction.law


def _with_interval(prediction: Prediction) -> str:
    interval = ""
    if prediction.interval:
        interval = f" (95 %: {' to '.join(map(_layers, prediction.interval))})"
    return f"{prediction.depth:.1f}{interval}"


def _layers(depth: float) -> str:
    return f"{depth:.1f}" if depth < MOST_LAYERS else f"over {MOST_LAYERS:,}"


def _too_wide(prediction: Prediction) -> str:
    """A line where the interval of a prediction is too wide to be of use; else empty."""
    if not prediction.interval or prediction.interval[1] < USELESS * prediction.interval[0]:
        return ""
    low, high = map(_layers, prediction.interval)
    return (
        f"The law says next to nothing of this size: {low} to {high} layers are possible. Larger "
        "budgets, nearer to it, or more of them would say more."
    )


def print_table(table: LawTable) -> None:
    """Prints the table and explains its marks."""
    found = [*(r.prediction for r in table.published), *(r.prediction for r in table.budgets)]
    tables = [_published_table(table.published)] if table.published else []
    tables += [_budget_table(table.budgets), _null_table(table.budgets)] if table.budgets else []
    for shown in tables:
        Console().print(shown)
    print(table.note)
    if any(each and each.extrapolated for each in found):
        print("* outside the sizes that the law was fitted on")


def optima_of(run: str) -> tuple[Optimum, ...]:
    """The answers of a run folder of one horizon.

    Raises:
        ConfigError: when it is none.
    """
    folder = RunFolder(Path(run))
    folder.check_files()
    folder.check_config()
    if not folder.config.exists():
        raise ConfigError(f"`--law` must be {LEVINE} or a run folder, got {run}")
    from fathom.search.study.keys.config import load_kept
    from fathom.search.study.own_records import read_records

    config = load_kept(folder.config)
    if config.horizons:
        raise ConfigError(
            f"`--law {run}` was searched at several horizons: give --tokens, or name the folder of "
            "one horizon in it"
        )
    return find_optima(read_records(folder, config), seed=config.seed)


def _budget_row(
    optimum: Optimum, laws: WeighedLaws, null_laws: Sequence[NullLaw], *, is_used: bool
) -> BudgetByLaw:
    null_depths = {found.law: found.depth for found in _predictions(null_laws, optimum.budget)}
    prediction = None
    with suppress(ValueError):
        prediction = laws.predict(optimum.budget)
    return BudgetByLaw(
        budget=optimum.budget,
        measured_depth=optimum.optimal_depth,
        measured_interval=optimum.interval,
        verdict=optimum.kind,
        fitted=is_used,
        null_laws={null.name: null_depths.get(null.name) for null in null_laws},
        prediction=prediction,
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
