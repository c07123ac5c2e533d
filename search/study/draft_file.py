"""The text of a drafted study file, with comments, and the summary that is printed."""

from pathlib import Path

import yaml

from fathom.search.formatting import format_seconds
from fathom.search.run_folder import write_atomically
from fathom.search.study.affordable import MOST_EPOCHS
from fathom.search.study.draft import Draft, Seen
from fathom.search.study.errors import ConfigError
from fathom.search.study.json_schema import FILE, modeline, schema_text

COMMENT_COLUMN = 32
"""Column at which comments begin, if the line is not longer."""


def refuse_place(path: Path, corpus: str, *, force: bool) -> None:
    """Checks that no file is replaced without `--force` and that the corpus is not changed.

    Raises:
        ConfigError: when the study file or another schema beside it is there, or no folder is.
    """
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} must be a folder that is there; make it first")
    text = Path(corpus).expanduser()
    if text.is_dir() and path.resolve().is_relative_to(text.resolve()):
        raise ConfigError(f"{path} would be a part of the corpus {corpus}; write it beside that")
    schema = path.with_name(FILE)
    for file in (path, schema):
        same = file == schema and file.is_file() and file.read_bytes() == schema_text().encode()
        if file.exists() and not same and not (force and file.is_file()):
            raise ConfigError(f"{file} is there already; `--force` replaces a file")


def write_study(path: Path, text: str) -> None:
    """Writes the study file, and beside it the schema with which editors complete it."""
    write_atomically(path.with_name(FILE), schema_text())
    write_atomically(path, text)


def study_text(seen: Seen, draft: Draft) -> str:
    """The text of the study file: each key with a comment; all other keys have their defaults."""
    config, settings = draft.config, draft.config.objective.settings()
    lines = [
        modeline(),
        f"# {_seen_words(seen)}.",
        f"# {_time_words(draft)}.",
        f"# Not more: {draft.reason}.",
        _line("study", config.study, "also the name of its folder in runs/"),
        "objective:",
        _line("  name", "language", "predict the next token"),
        _line("  corpus", seen.corpus, "as seen from where fathom runs"),
        _line("  tokenizer", seen.tokenizer, "bytes, chars or bpe:N, with N token ids"),
        _line("  context", settings["context"], "tokens of a training sequence"),
        _line("  eval_tokens", settings["eval_tokens"], "held-out tokens in an evaluation"),
        _line("budgets", list(draft.labels), "sizes to compare; three make a law"),
        _line("count", config.count.value, "parameters but the embedding; or total"),
        _line("tokens", draft.horizon, _epochs(draft)),
        "",
        f"# Every other key has a default; runs/{config.study}/config.yaml will spell them out.",
    ]
    return "\n".join(lines) + "\n"


def told(seen: Seen, draft: Draft, path: Path) -> str:
    """The summary that `fathom init` prints: text, choice, time, and the next commands."""
    return (
        f"Seen      {seen.corpus}: {_seen_words(seen)}\n"
        f"Chosen    budgets {draft.words} each: {_epochs(draft)}\n"
        f"Time      {_time_words(draft)}\n"
        f"Not more  {draft.reason}\n"
        f"Written   {path}, and {path.with_name(FILE)} for editors\n"
        f"Next      fathom plan {path}\n"
        f"          fathom run {path}"
    )


def _line(key: str, value: object, comment: str) -> str:
    plain = yaml.safe_dump([value], default_flow_style=True, width=10**6)[1:-2]
    return f"{f'{key}: {plain}'.ljust(COMMENT_COLUMN - 2)}  # {comment}"


def _seen_words(seen: Seen) -> str:
    return (
        f"{seen.size_bytes:,} bytes of text with {seen.characters:,} different characters; "
        f"{seen.train_tokens:,} tokens to train on"
    )


def _epochs(draft: Draft) -> str:
    parameter = f"{draft.tokens_per_parameter} a parameter at {draft.labels[-1]}"
    return f"{draft.epochs:.1f} epochs of the text (no more than {MOST_EPOCHS}); {parameter}"


def _time_words(draft: Draft) -> str:
    return f"About {format_seconds(3600 * draft.hours)} on {draft.machine.words}"
