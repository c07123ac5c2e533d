"""The map of the code in docs/files.md, made from the first sentence of each folder.

    python -m docs.extensions.file_map

writes it again.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "files.md"
FOLDERS = ("models", "objectives", "papers", "search", "benchmarks")
MAP = re.compile(r"(?<=^<!-- map -->\n).*?(?=^<!-- /map -->)", re.M | re.S)


def file_map() -> str:
    """An item for each folder: its path, what it is, and the names of its modules."""
    folders = (sorted(path.parent for path in (ROOT / top).rglob("__init__.py")) for top in FOLDERS)
    return "".join(_item(folder) for below in folders for folder in below)


def _item(folder: Path) -> str:
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    place, what = folder.relative_to(ROOT), _first_sentence(folder / "__init__.py")
    return f"- **{place}/** {what}. {', '.join(f'`{name}`' for name in names)}".rstrip() + "\n"


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
