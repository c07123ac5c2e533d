"""The study that `fathom init` drafts: as large as the text and this machine allow."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from fathom.objectives.held_out.names import held_out_names
from fathom.objectives.keys import parse_count
from fathom.objectives.text.corpus import read_corpus
from fathom.objectives.text.encode import encode
from fathom.objectives.text.left_out import left_out_note
from fathom.objectives.text.tokenizer import BYTES
from fathom.objectives.tokens.formats import is_token_place
from fathom.objectives.tokens.ranges import proposed_keys
from fathom.search.formatting import exact_count, format_seconds, shell_command
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import study_of
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.json_schema import FILE, modeline, schema_text
from fathom.search.study.planning.affordable import (
    FEWER_TOKENS,
    MOST_EPOCHS,
    TOKENS,
    largest_affordable,
    three_budgets,
)
from fathom.search.study.planning.plan import plan_study, search_hours

VALIDATION_FRACTION = 0.1
EVALUATION_SHARE = 64
"""Training tokens per token of an evaluation: all evaluations together then cost about a tenth of
the training."""
EVAL_TOKENS = (4096, 131_072)
"""Smallest and largest number of tokens per evaluation: the smallest is enough to compare shapes,
and the largest is the default."""
CONFIRMATIONS: tuple[dict[str, object], ...] = ({}, {"rates": [1]}, {"rates": [1], "depths": 5})
"""Values of `confirm` in a draft, from the default to the cheapest; the first that fits the hours
is taken."""
COMMENT_COLUMN = 32
"""Column at which comments begin, if the line is not longer."""
OBJECTIVE_COMMENTS = {
    "name": "predict the next token",
    "corpus": "as seen from where fathom runs",
    "train": "as seen from where fathom runs",
    "tokenizer": "bytes, chars or bpe:N (N token ids); for cut tokens, its file",
    "dtype": "type of the ids, by their look",
    "vocabulary": "number of token ids; if none was named, the largest seen plus one",
}
FROM_RUNS: Mapping[str, object] = {}
"""Keys of a study that answers what existing runs leave open; empty without `--from`."""
LEFT_OPEN = "about what the runs leave open"
CHEAPER = "to fit the hours; `fathom check` says if one rate suits all shapes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Size and vocabulary of the text that a drafted study trains on."""

    corpus: str
    tokenizer: str
    size_bytes: int
    """Bytes of text; 0 for tokens that are cut already."""
    characters: int
    """Number of different characters."""
    train_tokens: int
    vocab_size: int
    held_out: str = ""
    """Names in the folder of the text that mark held-out text; empty if there are none."""
    left_out: str = ""
    """A line on files that are not read; empty if all are read."""

    @property
    def summary(self) -> str:
        """Size of the text, and the text held out by its name, in words."""
        held_out = f"; held out by name: {self.held_out}" if self.held_out else ""
        if not self.size_bytes:
            ids = f"{self.train_tokens:,} tokens to train on, of {self.vocab_size:,} ids"
            return ids + held_out
        return (
            f"{self.size_bytes:,} bytes of text with {self.characters:,} different characters; "
            f"{self.train_tokens:,} tokens to train on{held_out}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A drafted study with its hours and epochs."""

    config: StudyConfig
    tokens_per_parameter: int
    """Training tokens per parameter of the largest budget. The other budgets train on the same
    number of tokens: with few tokens, seeds of a small model differ by more than depths do."""
    machine: str
    """The machine in words."""
    hours: float
    epochs: float
    """Epochs of the training text."""
    confirm: Mapping[str, object]
    """Keys of `confirm` that differ from the defaults, to fit the hours."""
    runs: Mapping[str, object]
    """Keys that make the study answer what existing runs leave open."""
    reason: str = ""
    """The reason why the study is not larger."""

    @property
    def labels(self) -> list[str]:
        """Names of the budgets."""
        return list(map(exact_count, self.config.budgets))

    @property
    def horizon(self) -> str:
        """Training tokens of every budget, in short."""
        return exact_count(self.config.tokens or 0)

    @property
    def summary(self) -> str:
        """The budgets and their training tokens in words."""
        return f"{', '.join(self.labels)} for {self.horizon} tokens"

    @property
    def repetition(self) -> str:
        """Epochs and tokens per parameter in words."""
        parameter = f"{self.tokens_per_parameter} a parameter at {self.labels[-1]}"
        return f"{self.epochs:.1f} epochs of the text (no more than {MOST_EPOCHS}); {parameter}"

    @property
    def duration(self) -> str:
        """Expected time and the machine in words."""
        return f"About {format_seconds(3600 * self.hours)} on {self.machine}"

    @property
    def cheaper(self) -> str:
        """The line of `confirm` in the study file; empty if the hours allow the default."""
        comment = CHEAPER if {*self.confirm} - {"seeds"} else "what the noise of the runs asks for"
        return _line("confirm", dict(self.confirm), comment) if self.confirm else ""

    def excess(self, hours: float) -> str:
        """The reason why the draft is too large: its epochs or its hours; empty if it is not too
        large."""
        if self.epochs > MOST_EPOCHS:
            return (
                f"{self.summary} would be {self.epochs:.1f} epochs of the text, over the limit of "
                f"{MOST_EPOCHS}"
            )
        if self.hours > hours:
            taken, limit = format_seconds(3600 * self.hours), format_seconds(3600 * hours)
            return f"{self.summary} would take {taken}, over your limit of {limit}"
        return ""


def look(corpus: str, tokenizer: str) -> Seen:
    """Size and vocabulary of a text or of tokens; raises `ValueError` if they can't be read."""
    if is_token_place(corpus):
        keys = objective_keys(corpus, tokenizer)
        found = study_of({"study": "draft", "objective": keys, "budgets": ["1M"]}).objective
        return Seen(
            corpus=corpus, tokenizer=tokenizer, size_bytes=0, characters=0,
            train_tokens=found.train_tokens(), vocab_size=found.vocab_size(),
            held_out=held_out_names(corpus),
        )  # fmt: skip
    text = read_corpus(corpus, validation_fraction=VALIDATION_FRACTION)
    ids = encode(text, tokenizer=tokenizer)
    return Seen(
        corpus=corpus,
        tokenizer=tokenizer,
        size_bytes=len(text.train) + len(text.validation),
        characters=len({*text.train.decode()} | {*text.validation.decode()}),
        train_tokens=len(ids.train),
        vocab_size=ids.vocab_size,
        held_out=held_out_names(corpus),
        left_out=left_out_note(corpus),
    )


def objective_keys(place: str, tokenizer: str) -> dict[str, object]:
    """The keys of an objective on a text, or on tokens that are cut already.

    For such tokens, `tokenizer` is a tokenizer's file or the number of ids. With `bytes`, the
    option's default, the number comes from the files of the tokens or, if these do not say it, from
    the largest id.
    """
    if not is_token_place(place):
        return {"name": "language", "corpus": place, "tokenizer": tokenizer}
    keys = {"name": "tokens", "train": place, **proposed_keys(place)}
    if tokenizer.isdecimal():
        keys["vocabulary"] = int(tokenizer)
    elif tokenizer != BYTES:
        keys.pop("vocabulary", None)
        keys["tokenizer"] = tokenizer
    return keys


def choose(
    seen: Seen, study: str, *, budgets: str | None, hours: float,
    runs: Mapping[str, object] = FROM_RUNS,
) -> Draft:  # fmt: skip
    """The largest study within the hours and `MOST_EPOCHS`; with given `budgets`, the longest.
    `runs` are keys that make the study answer what existing runs leave open.

    Raises:
        ConfigError: when even the smallest is too large, or the budgets are no numbers.
    """
    named = None if budgets is None else _parsed(budgets)
    for confirm in CONFIRMATIONS:
        options = (
            ((named, tokens) for tokens in (*FEWER_TOKENS, TOKENS)) if named else three_budgets()
        )
        drafts = (_draft(seen, study, *option, confirm, runs) for option in options)
        chosen, refused = largest_affordable((draft, not draft.excess(hours)) for draft in drafts)
        if chosen is not None:
            break
    if refused is None:
        reason = f"{TOKENS} tokens a parameter are the usual horizon"
    else:
        reason = refused.excess(hours)
    if chosen is None:
        too_long = refused is not None and refused.epochs > MOST_EPOCHS
        remedy = "give it more text" if too_long else "allow more `--hours`"
        raise ConfigError(f"no study is small enough: {reason}; {remedy}")
    return replace(chosen, reason=f"next larger option: {reason}" if refused else reason)


def study_name(path: Path) -> str:
    """The name of a study, from its file's name; characters that it can't have are replaced."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip("._-")[:64] or "study"


def eval_tokens(horizon: int) -> int:
    """Tokens per evaluation for a training of this many tokens: a power of 2."""
    fewest, most = EVAL_TOKENS
    wanted = max(fewest, min(horizon // EVALUATION_SHARE, most))
    return 1 << wanted.bit_length() - 1


def refuse_place(path: Path, corpus: str, *, force: bool) -> None:
    """Checks that no file is replaced without `--force` and that the corpus is not changed.

    Raises:
        ConfigError: if the study file or another schema is there already, or the folder is not.
    """
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} must be a folder that exists; make it first")
    text = Path(corpus).expanduser()
    if text.is_dir() and path.resolve().is_relative_to(text.resolve()):
        raise ConfigError(f"{path} would be a part of the corpus {corpus}; write it elsewhere")
    schema = path.with_name(FILE)
    for file in (path, schema):
        same = file == schema and file.is_file() and file.read_bytes() == schema_text().encode()
        if file.exists() and not same and not (force and file.is_file()):
            raise ConfigError(f"{file} exists already; `--force` replaces a file")


def write_study(path: Path, text: str) -> None:
    """Writes the study file, and beside it the schema with which editors complete it."""
    write_atomically(path.with_name(FILE), schema_text())
    write_atomically(path, text)


def study_text(seen: Seen, draft: Draft) -> str:
    """The text of the study file: each key with a comment; all other keys have their defaults."""
    config, settings = draft.config, draft.config.objective.settings()
    lines = [
        modeline(),
        f"# {seen.summary}.",
        f"# {draft.duration}.",
        f"# {draft.reason[:1].upper()}{draft.reason[1:]}.",
        _line("study", config.study, "also the name of its folder in runs/"),
        "objective:",
        *(
            _line(f"  {key}", value, OBJECTIVE_COMMENTS[key])
            for key, value in objective_keys(seen.corpus, seen.tokenizer).items()
        ),
        _line("  context", settings["context"], "tokens of a training sequence"),
        _line("  eval_tokens", settings["eval_tokens"], "held-out tokens in an evaluation"),
        _line("budgets", draft.labels, "sizes to compare; three make a law"),
        _line("count", config.count.value, "parameters but the embedding; or total"),
        _line("tokens", draft.horizon, draft.repetition),
        *(_line(key, value, LEFT_OPEN) for key, value in draft.runs.items() if key == "space"),
        *([draft.cheaper] if draft.cheaper else []),
        "",
        f"# Every other key has a default; runs/{config.study}/config.yaml will spell them out.",
    ]
    return "\n".join(lines) + "\n"


def summary(seen: Seen, draft: Draft, path: Path) -> str:
    """The summary that `fathom init` prints: text, choice, time, and the next commands."""
    return (
        f"Text      {seen.corpus}: {seen.summary}\n"
        f"{f'Left out  {seen.left_out}{chr(10)}' if seen.left_out else ''}"
        f"Chosen    budgets {draft.summary} each: {draft.repetition}\n"
        f"Time      {draft.duration}\n"
        f"Limit     {draft.reason}\n"
        f"{f'Cheaper   {draft.cheaper}{chr(10)}' if draft.cheaper else ''}"
        f"Written   {path}, and {path.with_name(FILE)} for editors\n"
        f"Next      {shell_command('fathom', 'plan', path)}\n"
        f"          {shell_command('fathom', 'run', path)}"
    )


def _parsed(budgets: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({parse_count(budget) for budget in budgets.split(",")}))
    except ValueError as error:
        raise ConfigError(f"each of `--params` {error}") from error


def _draft(
    seen: Seen, study: str, budgets: tuple[int, ...], tokens_per_parameter: int,
    confirm: Mapping[str, object], runs: Mapping[str, object],
) -> Draft:  # fmt: skip
    tokens = tokens_per_parameter * budgets[-1]
    objective = {**objective_keys(seen.corpus, seen.tokenizer), "eval_tokens": eval_tokens(tokens)}
    sizes = {"budgets": budgets, "count": "non_embedding", "tokens": tokens, **runs}
    seeds = runs.get("confirm")
    confirm = {**confirm, **(seeds if isinstance(seeds, dict) else {})}
    config = study_of({"study": study, "objective": objective, **sizes, "confirm": confirm})
    machine = this_machine(config.resources, config.train)
    plans = plan_study(config, seen.vocab_size, machine)
    return Draft(
        config=config,
        tokens_per_parameter=tokens_per_parameter,
        machine=machine.description,
        hours=search_hours(plans, machine),
        confirm=confirm,
        runs=runs,
        epochs=plans[-1].budget.tokens / seen.train_tokens,
    )


def _line(key: str, value: object, comment: str) -> str:
    plain = yaml.safe_dump([value], default_flow_style=True, width=10**6)[1:-2]
    return f"{f'{key}: {plain}'.ljust(COMMENT_COLUMN - 2)}  # {comment}"
