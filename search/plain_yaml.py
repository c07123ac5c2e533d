"""Reading YAML that others wrote: values only, nothing that runs, nothing that grows or hides.

Tags that run code, aliases and keys given twice are errors.
"""

from pathlib import Path
from typing import Any

import yaml

LARGEST_BYTES = 100_000
"""A study file is some hundred bytes; whatever is larger than this is another file."""


class YamlError(ValueError):
    """A file that is not plain YAML, in a few words to follow its name."""


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        YamlError: when it can't be read, is too large or is not UTF-8.
    """
    if path.is_fifo():  # reading would wait for a writer, who may never come
        raise YamlError("is a pipe; write it to a file first")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # a ValueError when the name holds a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise YamlError(f"can't be read: {reason}") from error
    if len(content) > LARGEST_BYTES:
        raise YamlError(f"must be YAML of at most {LARGEST_BYTES:,} bytes, and is larger")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlError(f"must be UTF-8 text, byte {error.start} is not") from error


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        YamlError: when it is not plain YAML.
    """
    try:
        return yaml.load(text, Loader=_PlainLoader)
    except RecursionError as error:
        raise YamlError("not a plain YAML file: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise YamlError(f"not a plain YAML file: {_problem(error)}") from error


class _PlainLoader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # A few lines of aliases to aliases stand for more values than any memory holds.
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"`*{event.anchor}` must be written out, not aliased", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a word", key_node.start_mark
                )
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key `{key_node.value}` is given twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _problem(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    return f"{error.problem} (line {error.problem_mark.line + 1})"
