"""The card of a run: one page of Markdown for a paper or a pull request, and its picture.

It has what a stranger needs to believe the answer, to repeat it or to overturn it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import hypot, inf, sqrt
from pathlib import Path

import yaml

from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import Located, Optimum
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.formatting import (
    budget_text,
    format_seconds,
    ranges,
    rounded_count,
    spend_text,
    visible,
)
from fathom.search.records import TrialRecord
from fathom.search.report.charts.card_picture import PREVIEW, AnswerPicture, save_picture
from fathom.search.report.pages.hero import strip_charts
from fathom.search.report.words import text
from fathom.search.report.words.caveats import unsupported
from fathom.search.report.words.other_depths import compute_note, other_depths
from fathom.search.report.words.sizes import amount_law_text, size_lines
from fathom.search.study.fingerprint import FREE_TO_CHANGE
from fathom.search.study.keys.config import StudyConfig
from fathom.search.version import own_version, program
from fathom.search.words import NOT_RULED_OUT

CARD, PICTURE = "card.md", "card.png"
"""Names of the two files."""
MOST_CHARTS = 3
"""Number of sizes whose charts fit beside each other; if there are more, the largest are drawn."""
SEEDS = 3
"""Number of seeds in which another depth would be trained to overturn an answer."""
ERRORS = 2.0
"""Number of standard errors by which a depth must be better to overturn an answer."""
SHORT_DIGEST = 12
"""Letters of a digest that suffice to tell it from others by eye."""
MARKS = re.compile(r"([\\`*_\[\]!&#|~])")
"""Characters with a meaning in Markdown; `<` has none in a card."""
CITATION = """\
@software{{fathom,
  title = {{Fathom: how deep should a transformer be?}},
  author = {{{{The authors of Fathom}}}},
  version = {{{version}}},
  license = {{Apache-2.0}}
}}"""


def save_card(conclusion: Conclusion, folder: Path) -> str:
    """Saves `card.md` and `card.png` in a folder; returns the Markdown."""
    found = card_text(conclusion)
    (folder / CARD).write_text(found, encoding="utf-8")
    save_picture(_picture(conclusion), folder / PICTURE, PREVIEW)
    return found


def card_text(conclusion: Conclusion) -> str:
    """Returns the card as Markdown, which shows the picture beside it."""
    config, optima = conclusion.config, conclusion.optima
    claim = text.summary(optima)
    law = text.law_text(conclusion.laws[0]) if conclusion.laws else ""
    parts = [
        f"# {_heading(conclusion)}",
        f"**{claim}**",
        text.unfinished_text(conclusion),
        f"![{claim}]({PICTURE})",
        text.summary_table(optima),
        f"In brackets: 95 % intervals. Not ruled out: {NOT_RULED_OUT}.",
        _bullets(_reasons(conclusion)),
        _bullets(
            text.sentence(line)
            for optimum in optima
            if optimum.best_size
            for line in size_lines(optimum.best_size)
        ),
        law,
        text.sentence(amount_law_text(conclusion.amount_law)) if conclusion.amount_law else "",
        *_other_depths(conclusion),
        "## What would overturn it",
        _bullets((*_overturning(optima), *_of_the_recipe(conclusion))),
        "## What these data do not show",
        _bullets(unsupported(conclusion)),
        "## What it cost",
        _cost(conclusion.records),
        "## Data and settings",
        _bullets(_digests(conclusion)),
        "## To reproduce it",
        f"With {program()} and the same data. Keys that the file leaves out have the "
        "defaults of that version.",
        _fenced("sh", f"fathom run {config.study}.yaml"),
        _fenced("yaml", study_yaml(config)),
        "## To cite it",
        _fenced("bibtex", CITATION.format(version=own_version() or "not installed")),
    ]
    return "\n\n".join(_without_html(part) for part in parts if part) + "\n"


def _without_html(part: str) -> str:
    """A part of a card with its HTML escaped; fenced blocks are left as they are."""
    return part if part.startswith("```") else part.replace("<", "&lt;")


def _plain(words: str) -> str:
    """Text from the records as one line of Markdown, with no links and no pictures."""
    return MARKS.sub(r"\\\1", " ".join(visible(words).split()))


def _heading(conclusion: Conclusion) -> str:
    return f"{conclusion.title}: how deep should the transformer be?"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _fenced(language: str, block: str) -> str:
    longest = max(map(len, re.findall("`+", block)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{block.rstrip()}\n{fence}"


def _reasons(conclusion: Conclusion) -> list[str]:
    """The reason of each budget's verdict."""
    return [
        f"{budget_text(optimum.budget, optimum.count)}, `{optimum.kind.value}`: "
        f"{text.sentence(conclusion.reason(optimum))}"
        for optimum in conclusion.optima
    ]


def _other_depths(conclusion: Conclusion) -> Iterator[str]:
    """Yields the section on what other depths cost; nothing where no depth is claimed."""
    pairs = [(optimum, other_depths(conclusion, optimum)) for optimum in conclusion.optima]
    lines = [f"{budget_text(o.budget, o.count)}, {line}" for o, line in pairs if line]
    if lines:
        yield "## What other depths cost"
        yield _bullets(lines)
        notes = {compute_note(conclusion, optimum) for optimum in conclusion.optima}
        yield from sorted(note for note in notes if note)


def _overturning(optima: Sequence[Optimum]) -> Iterator[str]:
    """Yields, for each answer, the result that would overturn it."""
    for optimum in optima:
        label = budget_text(optimum.budget, optimum.count)
        if not isinstance(optimum, Located) or not optimum.kind.decided:
            yield f"{label}: nothing is claimed."
            continue
        same = "the same size and tokens"
        if optimum.count.frees_size:
            same = f"any size and {spend_text(optimum.spend)}"
        yield (
            f"{label}: {_another(optimum)} whose mean loss over {SEEDS} seeds, at {same}, is "
            f"below {optimum.loss - _telling(optimum):.4f} nats: "
            f"{ERRORS:g} standard errors of the difference below the {optimum.loss:.4f} of depth "
            f"{optimum.optimal_depth}."
        )


def _another(optimum: Located) -> str:
    """A clause on the depths that are neither in an answer's interval nor among its depths not
    ruled out."""
    low, high = optimum.interval
    if text.is_open_above(optimum):
        return f"a depth below {low}"
    if text.is_open_below(optimum):
        return f"a depth above {high}"
    claimed = sorted({*range(low, high + 1), *not_ruled_out(optimum)})
    return f"a depth {'other than' if len(claimed) == 1 else 'outside'} {ranges(claimed)}"


def _telling(optimum: Located) -> float:
    """Nats by which another depth must be better than the best one to overturn the answer, if it is
    trained with `SEEDS` seeds."""
    known = {estimate.depth: estimate.standard_error for estimate in optimum.depths}
    error = known.get(optimum.optimal_depth, inf)
    own = error if error < inf else optimum.noise
    return ERRORS * hypot(own, optimum.noise / sqrt(SEEDS))


def _of_the_recipe(conclusion: Conclusion) -> list[str]:
    """Settings that all trials share, and that may favour some depths."""
    train = conclusion.config.train
    rates = sorted({record.spec.learning_rate for record in conclusion.records})
    shown = f"learning rate{'' if len(rates) == 1 else 's'} "
    shown += text.joined([f"{rate:.3g}" for rate in rates])
    recipe = "`train.command`" if train.command else f"`{train.optimizer.value}`"
    return [
        f"Every size: another recipe than {recipe} with {shown}, if it suits deep models "
        "better, or worse, than shallow ones. Other data and other numbers of tokens are other "
        "questions."
    ]


def _cost(records: Sequence[TrialRecord]) -> str:
    """Trials, tokens, operations and time of the whole search, in a sentence."""
    ended = Counter(record.outcome.value for record in records if record.outcome)
    outcomes = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in ended.items())
    tokens = sum(record.tokens for record in records)
    flops = sum(record.train_flops for record in records)
    parts = [
        f"{text.counted(len(records), 'trial')} ({outcomes})",
        f"{rounded_count(tokens)} training tokens",
        f"{flops:.2g} FLOPs of training".replace("e+", "e"),
    ]
    if seconds := sum(record.train_seconds for record in records):
        parts.append(f"{format_seconds(seconds)} in training steps")
    devices = sorted({_plain(record.device) for record in records if record.device})
    return ", ".join(parts) + (f", on {text.joined(devices)}." if devices else ".")


def _digests(conclusion: Conclusion) -> Iterator[str]:
    """Yields the digests that identify the data and the settings."""
    known = conclusion.fingerprint
    if known is None:
        yield "No digest was recorded."
        return
    study, digest = (re.sub(r"\W", "", d) for d in (known.study, known.content or known.data))
    yield f"Settings and data together: `{study}` (`fingerprint.json` of the run)"
    yield f"Data: `{digest}`" if digest else "Data: drawn by a rule from the seed"
    if not known.reproducible:
        yield f"Shapes: not reproducible, as `{conclusion.config.sampler}` takes no seed"
    objective = conclusion.config.objective
    yield f"Objective: `{objective.name}`; losses are {objective.loss_unit}"


def study_yaml(config: StudyConfig) -> str:
    """Returns the study as YAML, without keys at their defaults and without groups that affect no
    answer."""
    values = config.model_dump(mode="json", exclude_defaults=True, exclude=FREE_TO_CHANGE)
    return yaml.safe_dump(values, sort_keys=False, width=inf, default_flow_style=None)


def _picture(conclusion: Conclusion) -> AnswerPicture:
    """Returns the values of a card's picture: the largest sizes, and their source."""
    drawn = [
        (optimum, chart)
        for optimum, chart in zip(conclusion.optima, strip_charts(conclusion), strict=True)
        if chart is not None
    ][-MOST_CHARTS:]
    records = conclusion.records
    tokens = rounded_count(sum(record.tokens for record in records))
    source = [text.counted(len(records), "trial"), f"{tokens} training tokens"]
    if conclusion.fingerprint:
        source.append(f"settings and data {conclusion.fingerprint.study[:SHORT_DIGEST]}")
    if left := len(conclusion.optima) - len(drawn):
        source.append(f"{left} more in the card")
    return AnswerPicture(
        heading=_heading(conclusion),
        claim=text.summary([optimum for optimum, _ in drawn]),
        charts=tuple(chart for _, chart in drawn),
        source=", ".join(source),
        program=program(),
    )
