"""The map of files in docs/files.md, made from the first sentence of each module.

    python -m docs.extensions.file_map

writes it again.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "files.md"
FOLDERS = ("models", "objectives", "papers", "search", "benchmarks")
MAP = re.compile(r"(?<=^```text map\n).*?(?=^```)", re.M | re.S)
COLUMN = 36
"""Column at which the sentences begin, if the name leaves room."""


def file_map() -> str:
    """One line for each folder and module: its name, indented by its folder, and what it is."""
    return "".join(f"{line}\n" for folder in FOLDERS for line in _lines(ROOT / folder, 0))


def _lines(folder: Path, level: int) -> Iterator[str]:
    yield _line(f"{folder.name}/", folder / "__init__.py", level)
    modules = sorted(folder.glob("*.py"))
    yield from (_line(m.name, m, level + 1) for m in modules if m.name != "__init__.py")
    for room in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _lines(room, level + 1)


def _line(name: str, module: Path, level: int) -> str:
    return f"{'  ' * level + name:<{COLUMN}} {_first_sentence(module)}"


def _first_sentence(module: Path) -> str:
    """The first sentence of a module's docstring, without its full stop."""
    words = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(words.split("\n\n")[0].split())
    return re.split(r"(?<! al)\.(?= |$)", paragraph)[0]


def page_with_map() -> str:
    """The page with the map that the files give today."""
    return MAP.sub(lambda _: file_map(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page_with_map(), encoding="utf-8")
