"""The text of a small file that a person wrote, such as a study file."""

from pathlib import Path

from fathom.objectives.files.reading import open_regular
from fathom.search.study.file.errors import ConfigError

LARGEST_BYTES = 100_000
"""Largest size of a file that is read; study files have some hundred bytes."""


class FileError(ConfigError):
    """A file that can't be read; the message is written after its name."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"{message} (line {line})")
        self.message = message
        self.line = line


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        FileError: when it can't be read, is too large or is not UTF-8.
    """
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # a ValueError when the name holds a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"can't be read: {reason}") from error
    if len(content) > LARGEST_BYTES:
        raise FileError(f"must be text of at most {LARGEST_BYTES:,} bytes, got more")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(
            f"must be UTF-8 text, but byte {error.start} is not; save it as UTF-8"
        ) from error
