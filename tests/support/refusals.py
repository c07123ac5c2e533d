"""Studies that are refused, with the lines that say why: `tests/search/study/keys/refusals.txt`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from fathom.search.study.file.errors import ConfigError
from tests.support.places import ROOT

MINIMAL = {"study": "s", "objective": "language", "budgets": ["1M"]}
"""Values of the smallest study."""
MARK = "  # schema"


@dataclass(frozen=True)
class Refusal:
    """A study that is refused."""

    changes: str
    """Values that differ from `MINIMAL`, as YAML."""
    message: str
    by_schema: bool
    """True if the JSON Schema refuses the study, too."""

    @property
    def values(self) -> dict[str, Any]:
        """The study's values."""
        changes: dict[str, Any] = yaml.safe_load(self.changes)
        return MINIMAL | changes

    def is_told_by(self, message: str) -> bool:
        """True for this message; its `...` stands for any text."""
        pattern = ".*".join(map(re.escape, self.message.split("...")))
        return re.fullmatch(pattern, message) is not None


@contextmanager
def refused(*words: str, error: type[ConfigError] = ConfigError) -> Iterator[None]:
    """Context that must end in an error of one line with all of these words."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def refusals() -> Iterator[Refusal]:
    """Every study of the file."""
    text = (ROOT / "tests/search/study/keys/refusals.txt").read_text(encoding="utf-8")
    for changes, lines in re.findall(r"^(\{.*)\n((?:  .*\n)+)", text, re.MULTILINE):
        message = "\n".join(line[2:] for line in lines.splitlines())
        yield Refusal(changes.removesuffix(MARK), message, changes.endswith(MARK))


REFUSALS = tuple(refusals())
