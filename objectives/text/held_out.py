"""Held-out text that is trained on as well: found before a study is planned, and once it is cut."""

import logging

from fathom.objectives.held_out.files import check_apart, contained_error, file_overlap
from fathom.objectives.held_out.overlap import TEXT_WINDOW, WINDOW, InMemory, Overlap, overlap_of
from fathom.objectives.text.corpus import files_by_name
from fathom.objectives.text.encode import Ids
from fathom.objectives.text.folders import NamedFiles
from fathom.objectives.text.tokenizer import BYTES, CHARS
from fathom.objectives.tokens.stream import Segment, TokenFiles, TokenReader

BYTE_IDS = 256
KEY = "held-out text"
APART = "take it out of the text to train on, or name other files"

logger = logging.getLogger(__name__)


def check_named(named: NamedFiles) -> None:
    """Checks that training files and files held out by their names do not contain each other's
    bytes.

    Raises:
        ObjectiveError: if they do.
    """
    train, held_out = (
        TokenFiles(
            tuple(
                Segment(str(file), 0, file.stat().st_size, "|u1")
                for file in files if file.suffix != ".gz"
            ),
            BYTE_IDS,
        )
        for files in (named.train, named.validation)
    )  # fmt: skip
    check_apart(train, held_out, held_out_key=KEY, remedy=APART, unit="bytes", window=TEXT_WINDOW)


def check_cut(
    train: Ids | TokenFiles, validation: Ids | TokenFiles, *, corpus: str, tokenizer: str
) -> None:
    """Warns of held-out tokens that are trained on as well.

    Raises:
        ObjectiveError: if names say what is held out, and one split contains the other.
    """
    window = TEXT_WINDOW if tokenizer in (BYTES, CHARS) else WINDOW
    found = _overlap(train, validation, window)
    if found is None:
        return
    if found.contained and files_by_name(corpus):
        raise contained_error(found, KEY, "tokens", APART)
    if note := found.note():
        logger.warning("corpus %r: %s", corpus, note)


def _overlap(train: Ids | TokenFiles, validation: Ids | TokenFiles, window: int) -> Overlap | None:
    if isinstance(train, TokenFiles) and isinstance(validation, TokenFiles):
        return file_overlap(train, validation, window)
    return overlap_of(_readable(train), _readable(validation), window)


def _readable(split: Ids | TokenFiles) -> TokenReader | InMemory:
    return TokenReader(split) if isinstance(split, TokenFiles) else InMemory(split)
