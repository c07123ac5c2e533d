"""A tokenizer in a file, `tokenizer.json`, as other programs write it."""

from pathlib import Path

from tokenizers import Tokenizer

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import open_regular

LARGEST_FILE = 1 << 28
"""Size in bytes above which a file can't be a tokenizer."""


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file, which neither cuts texts nor pads them.

    Raises:
        ObjectiveError: when the file is no tokenizer.
    """
    try:
        with open_regular(path) as file:
            found = Tokenizer.from_buffer(file.read(LARGEST_FILE))
    except OSError as error:
        raise ObjectiveError(
            f"`tokenizer` must be a tokenizer.json, got {error.strerror} for {path}; check the path"
        ) from error
    except Exception as error:
        raise ObjectiveError(
            f"`tokenizer` must be a tokenizer.json, got {path}: {str(error).splitlines()[0]}; name "
            "another file"
        ) from error
    found.no_truncation()
    found.no_padding()
    return found


def id_count(tokenizer: Tokenizer) -> int:
    """Number of ids up to the largest, unused ones included."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1
