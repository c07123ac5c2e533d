"""Numbers in the options of the command line."""

from fathom.objectives.keys import parse_count
from fathom.search.study.file.errors import ConfigError


def count_of(option: str, text: str) -> int:
    """The number in an option of the command line; raises `ConfigError` if it is not a number."""
    try:
        return parse_count(text)
    except ValueError as error:
        raise ConfigError(f"`{option}` {error}") from error
