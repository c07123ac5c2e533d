"""Texts with a label each, in splits, and their vocabulary of words or bytes.

Texts are generated, published, from a TSV or from folders. A TSV has a header that names the
columns, or two columns without a header. A folder has a folder of .txt or .txt.gz files for each
class; or it has such folders named `train` and, optionally, `dev` (or `val`) and `test`, as the
IMDb reviews have. Needs neither torch nor numpy.

Token ids: padding, words that training never saw, the words or bytes, then the classes.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.held_out.names import VALIDATION, split_of
from fathom.objectives.rows import tsv
from fathom.objectives.rows.classification import listops
from fathom.objectives.rows.held_out import check_apart
from fathom.objectives.rows.published import LISTOPS
from fathom.objectives.rows.word_ids import most_frequent, numbered
from fathom.objectives.token_ids import PAD

GENERATED = "listops"
BYTES = "bytes"
FLAT_LISTOPS = "listops"
"""Name of the tokenizer of words without the parentheses of trees."""
GENERATED_TOKENIZERS = ("words", FLAT_LISTOPS)
"""Tokenizers whose ids are all known before an expression is drawn."""
UNSEEN = PAD + 1
TOKENS_FROM = PAD + 2
BYTE_VALUES = 256
LABEL_NAMES = frozenset({"label", "class", "target", "category", "sentiment"})
TEXT_NAMES = frozenset({"text", "sentence", "source", "review", "input", "expression"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Text:
    """A text with its label and its place in the data."""

    text: str
    label: str
    origin: str


TextSplits = dict[str, list[Text]]
"""Labelled texts of a study, by split."""


def read_texts(
    *, data: str, label: str | None, dev: str | None, test: Mapping[str, str],
    rules: Mapping[str, Any], context: int, validation_fraction: float,
) -> TextSplits:  # fmt: skip
    """Texts by split: `train`, `dev` and others. Each split is read or drawn once; `rules` are for
    generated expressions.

    Raises:
        ObjectiveError: when a file is missing or malformed or a label unknown.
    """
    tsv.check_names(test, "train", "dev")
    found = _generate(rules, context) if data == GENERATED else _read_splits(data, label)
    found |= {name: _read(place, label) for name, place in test.items()}
    if dev is not None:
        found["dev"] = _read(dev, label)
    if "dev" in found:
        place = dev or f"dev of {data}"
        check_apart(rows_of(found["train"]), rows_of(found["dev"]), place)
    splits = tsv.with_dev(found, attrgetter("text"), validation_fraction, data=data)
    _check_labels(splits, data)
    return splits


def rows_of(texts: Iterable[Text]) -> list[tuple[str, str]]:
    """Text and label of each row, without its place in the data."""
    return [(text.text, text.label) for text in texts]


def classes_of(splits: TextSplits) -> tuple[str, ...]:
    """Labels of the training texts, sorted."""
    return tuple(sorted({text.label for text in splits["train"]}))


def _generate(rules: Mapping[str, Any], context: int) -> TextSplits:
    drawn = listops.expressions(
        rules["examples"],
        max_depth=rules["max_depth"],
        max_args=rules["max_args"],
        lengths=(rules["min_length"], context),
    )
    return {"train": [Text(text, str(value), "a generated text") for text, value in drawn]}


def _read_splits(data: str, label: str | None) -> TextSplits:
    """Texts by split at a place; several splits if the place is a folder that names them."""
    folder = Path(data).expanduser()
    if data in LISTOPS or not (folder / "train").is_dir():
        return {"train": _read(data, label)}
    names = {"train": "train", "test": "test"} | {
        entry.name: "dev"
        for entry in sorted(folder.iterdir())
        if split_of(entry.name) == VALIDATION
    }
    found: TextSplits = {}
    for name, split in names.items():
        if (folder / name).is_dir():
            found[split] = found.get(split, []) + _read_folder(folder / name)
    return _without_unasked(found)


def _without_unasked(found: TextSplits) -> TextSplits:
    """The splits without the classes that `test/` lacks, such as IMDb's unlabelled `unsup`."""
    if "test" not in found:
        return found
    asked = {text.label for text in found["test"]}
    unasked = sorted({text.label for text in found["train"]} - asked)
    if unasked:
        logger.warning("left out the classes of train/ that test/ lacks: %s", ", ".join(unasked))
    return {name: [text for text in texts if text.label in asked] for name, texts in found.items()}


def _read(place: str, label: str | None) -> list[Text]:
    """Reads the texts at one place: a published set, a folder of classes or a TSV."""
    if place in LISTOPS:
        return [
            Text(listops.without_parentheses(text.text), text.label, text.origin)
            for text in tsv.not_empty(_rows(LISTOPS[place], "first"), LISTOPS[place])
        ]
    path = Path(place).expanduser()
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        known = [GENERATED, *LISTOPS]
        raise ObjectiveError(
            f"`data` must be one of {', '.join(known)}, or the path of a folder or TSV, got "
            f"{place!r}; {nearest(place, known)}"
        )
    return _refuse_header(tsv.not_empty(_rows(place, label), place))


def _read_folder(folder: Path) -> list[Text]:
    """Texts in the files of each class, sorted; skips hidden folders and other files."""
    texts = [
        Text(tsv.read_text(str(file)), class_folder.name, str(file))
        for class_folder in sorted(folder.iterdir())
        if class_folder.is_dir() and not class_folder.name.startswith(".")
        for file in sorted(class_folder.iterdir())
        if file.name.endswith((".txt", ".txt.gz"))
    ]
    if not texts:
        raise ObjectiveError(
            f"{folder} must have a folder of .txt or .txt.gz files for each class, got none; "
            "check the path"
        )
    return texts


def _rows(place: tsv.Place, label: str | None) -> Iterator[Text]:
    columns: tuple[int, int, int] | None = None
    for line in tsv.read_lines(place):
        if columns is None:
            columns = _header(line)
            if columns is not None:
                continue
            columns = _columns(line, label)
        label_at, text_at, count = columns
        if len(line.cells) != count:
            raise ObjectiveError(
                f"{line} must have {count} columns with a tab between, got {len(line.cells)}; "
                "correct that line"
            )
        text, label_text = line.cells[text_at].strip(), line.cells[label_at].strip()
        if not (text and label_text):
            raise ObjectiveError(f"{line} must have both a label and a text; fill in or drop it")
        yield Text(text, label_text, str(line))


def _header(line: tsv.TsvLine) -> tuple[int, int, int] | None:
    """The columns of label and text and the number of columns, if the line is a header that names
    them."""
    names = [cell.strip().lower() for cell in line.cells]
    labels = [at for at, name in enumerate(names) if name in LABEL_NAMES]
    texts = [at for at, name in enumerate(names) if name in TEXT_NAMES]
    return (labels[0], texts[0], len(names)) if labels and texts else None


def _columns(line: tsv.TsvLine, label: str | None) -> tuple[int, int, int]:
    if label is None:
        raise ObjectiveError(
            f"{line} names no columns, so the study must say where the label is: "
            "`label: first` or `label: last`"
        )
    return (0, 1, 2) if label == "first" else (1, 0, 2)


def _refuse_header(texts: list[Text]) -> list[Text]:
    """Returns the texts; raises `ObjectiveError` if no other text has the label of the first, which
    then must be a header."""
    labels = Counter(text.label for text in texts)
    first = texts[0]
    if labels[first.label] == 1 and min(list(labels.values())[1:], default=1) > 1:
        raise ObjectiveError(
            f"{first.origin} has a label that no other text has, {first.label!r}, and looks like a "
            "header; delete that line, or name its columns `label` and `text`"
        )
    return texts


def _check_labels(splits: TextSplits, data: str) -> None:
    generated, train = data == GENERATED, splits["train"]
    classes = listops.DIGITS if generated else classes_of(splits)
    if not generated and (len(classes) < 2 or 2 * len(classes) > max(4, len(train))):
        raise ObjectiveError(
            f"{data} must have at least two classes and two texts of each, got {len(classes)} "
            f"labels in {len(train)} texts; check `label`, the column of the label"
        )
    known = set(classes)
    for text in (text for texts in splits.values() for text in texts):
        if text.label not in known:
            raise ObjectiveError(
                f"{text.origin} must have a label that the training texts have, got "
                f"{text.label!r}; correct the label, or add training texts of that class"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextVocabulary:
    """Words and classes of the training texts, with their token ids."""

    tokenizer: str
    words: Mapping[str, int]
    """Token id of each word; empty for bytes."""
    classes: tuple[str, ...]

    @property
    def first_class(self) -> int:
        """Id of the first class."""
        return TOKENS_FROM + (BYTE_VALUES if self.tokenizer == BYTES else len(self.words))

    @property
    def size(self) -> int:
        """Number of ids."""
        return self.first_class + len(self.classes)

    def ids(self, text: str) -> list[int]:
        """Token ids of a text."""
        if self.tokenizer == BYTES:
            return [TOKENS_FROM + byte for byte in text.encode()]
        return [self.words.get(word, UNSEEN) for word in _words(text, self.tokenizer)]

    def length(self, text: str) -> int:
        """Number of tokens of a text."""
        return len(text.encode() if self.tokenizer == BYTES else _words(text, self.tokenizer))


def read_with_vocabulary(
    *, tokenizer: str, cut: bool, listops: Mapping[str, Any], context: int, **places: Any
) -> tuple[TextSplits, TextVocabulary]:
    """The texts of a study and their vocabulary; `places` go to `read_texts`.

    Raises:
        ValueError: when they can't be read, or one exceeds the context and is not to be cut.
    """
    splits = read_texts(rules=listops, context=context, **places)
    vocabulary = _vocabulary(splits, tokenizer, generated=places["data"] == GENERATED)
    _check_lengths(splits, vocabulary, context, cut=cut)
    return splits, vocabulary


def generated_vocabulary(tokenizer: str) -> TextVocabulary:
    """Every word and value of generated expressions, whichever of them are drawn."""
    ids = numbered(sorted(listops.WORDS), TOKENS_FROM)
    return TextVocabulary(tokenizer=tokenizer, words=ids, classes=listops.DIGITS)


def _vocabulary(splits: TextSplits, tokenizer: str, *, generated: bool) -> TextVocabulary:
    if generated and tokenizer in GENERATED_TOKENIZERS:
        return generated_vocabulary(tokenizer)
    kind, _, most = tokenizer.partition(":")
    words: Iterable[str] = ()
    if kind != BYTES:
        every = (word for text in splits["train"] for word in _words(text.text, kind))
        words = most_frequent(every, int(most) if most else None)
    ids = numbered(sorted(words), TOKENS_FROM)
    return TextVocabulary(tokenizer=kind, words=ids, classes=classes_of(splits))


def _words(text: str, tokenizer: str) -> list[str]:
    return (listops.without_parentheses(text) if tokenizer == FLAT_LISTOPS else text).split()


def _check_lengths(
    splits: TextSplits, vocabulary: TextVocabulary, context: int, *, cut: bool
) -> None:
    """Refuses empty texts, and texts longer than the context unless they are to be cut."""
    every = [text for texts in splits.values() for text in texts]
    lengths = [vocabulary.length(text.text) for text in every]
    at = max(range(len(every)), key=lengths.__getitem__)
    if min(lengths) == 0:
        empty: Text = every[lengths.index(0)]
        raise ObjectiveError(
            f"{empty.origin} must have at least one token, got none; drop that text"
        )
    if lengths[at] > context and not cut:
        raise ObjectiveError(
            f"`context` must hold every text, but {every[at].origin} has {lengths[at]} tokens, got "
            f"context={context}; use {lengths[at]} or more, or `cut: true` to keep the beginnings"
        )
    longer = sum(length > context for length in lengths)
    if longer:
        logger.warning("cut %d of %d texts to %d tokens", longer, len(every), context)
