"""Safe reading of YAML files: plain values only.

Tags that run code, aliases and keys given twice are errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from fathom.search.study.file.text_file import FileError


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a YAML text, with the line of each part."""

    value: Any
    root: yaml.Node | None

    def line(self, path: Sequence[str | int]) -> int:
        """Line, from 1, of the key or item at a path, or of its group if it is missing."""
        node = self.root
        line = node.start_mark.line if node else 0
        for part in path:
            found = next((child for child in _parts(node) if child[0] == str(part)), None)
            if found is None:
                break
            _, line, node = found
        return line + 1


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; raises `FileError` as `parse_document` does."""
    return parse_document(text).value


def parse_document(text: str) -> Document:
    """The value of a YAML text, with the line of each part.

    Raises:
        FileError: when it is not plain YAML.
    """
    try:
        loader = _PlainLoader(text)
        root = loader.get_single_node()
        return Document(loader.construct_document(root) if root else None, root)
    except RecursionError as error:
        raise FileError("not a plain YAML file: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise FileError(*_problem(error)) from error


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


def _parts(node: yaml.Node | None) -> Iterator[tuple[str, int, yaml.Node]]:
    """Key or list position, line from 0, and node of each child of a node."""
    if isinstance(node, yaml.MappingNode):
        yield from ((key.value, key.start_mark.line, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from ((str(at), item.start_mark.line, item) for at, item in enumerate(node.value))


def _problem(error: Exception) -> tuple[str, int | None]:
    """The message of a parser's error, and its line if it has one."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"not a plain YAML file: {str(error).splitlines()[0]}", None
    return f"not a plain YAML file: {error.problem}", error.problem_mark.line + 1
