"""Makes drawings readable on a dark page: `python -m docs.extensions.dark FILE.svg ...`.

A chart in black on white becomes light on the page's own ground where the reader's system is dark;
hues stay as they are.
"""

import sys
from pathlib import Path

STYLE = (
    "<style>@media (prefers-color-scheme: dark) "
    "{svg {filter: invert(0.92) hue-rotate(180deg)}}</style>"
)


def with_dark(drawing: str) -> str:
    """The drawing with the style; one that has a style for dark pages stays as it is."""
    if "prefers-color-scheme" in drawing:
        return drawing
    head, tag, rest = drawing.partition("<defs>")
    return f"{head}{tag}\n  {STYLE}{rest}"


if __name__ == "__main__":
    for place in map(Path, sys.argv[1:]):
        place.write_text(with_dark(place.read_text(encoding="utf-8")), encoding="utf-8")
