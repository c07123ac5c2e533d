"""Records what a command writes to a terminal as an animated SVG, for the README and the docs.

    pip install termtosvg setuptools    # in an environment of its own: Fathom needs neither
    python -m benchmarks.recording --termtosvg .../termtosvg docs/terminal.svg fathom run STUDY

The command is really run, in a terminal of 64 columns. All of its time is played once in 24 seconds
at one speed, nothing is cut out, and the last picture stays. How long it took is printed at the
end. `--keep FILE` keeps the recording in asciinema's format, and `--from FILE` draws one that was
kept.
"""

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

COLUMNS, ROWS, DRAWN_ROWS = 64, 30, 36
"""Columns that a phone can show, 5.5 pixels each at a width of 390, and that the sentences need;
rows of the terminal, and of the drawing, which shows more of what has scrolled by."""
SECONDS, LAST_SECONDS, FRAME_SECONDS = 24.0, 8.0, 0.6
"""Time of the whole play, of its last picture beyond it, and least time of a picture."""
# A terminal of 16 colours leaves their values to the drawing, which has a light and a dark set.
TERMINAL = {"TERM": "xterm-16color", "COLORTERM": "", "NO_COLOR": ""}
TEMPLATE = Path(__file__).with_name("recording.svg")

Event = tuple[float, str]
"""Seconds since the start, and what was written then."""


def record(command: Sequence[str], *, columns: int = COLUMNS, rows: int = ROWS) -> list[Event]:
    """Returns all that a command writes to a terminal of this size.

    Raises `subprocess.CalledProcessError`, with the output, if the command fails.
    """
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, **TERMINAL, "COLUMNS": str(columns), "LINES": str(rows)}
    environment = {name: value for name, value in environment.items() if value}
    began = time.monotonic()
    process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment)
    os.close(side)
    events: list[Event] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A closed terminal is an error on Linux.
    while True:
        try:
            written = os.read(main, 65536)
        except OSError:
            break
        if not written:
            break
        events.append((time.monotonic() - began, decoder.decode(written)))
    os.close(main)
    if status := process.wait():
        shown = "".join(text for _, text in events)
        raise subprocess.CalledProcessError(status, command, output=shown)
    return events


def played(events: Sequence[Event], command: Sequence[str], seconds: float) -> list[Event]:
    """Returns the events at the speed at which all of them take `seconds`, after the typed line."""
    speed = events[-1][0] / seconds
    typed = (0.0, f"$ {shlex.join(command)}\r\n")
    return [typed, *((1.0 + at / speed, text) for at, text in events)]


def save_cast(events: Sequence[Event], path: Path, *, rows: int = ROWS) -> None:
    """Writes the events as asciinema does, version 2: a header, then an event a line."""
    lines = [
        json.dumps({"version": 2, "width": COLUMNS, "height": rows}),
        *(json.dumps([round(at, 3), "o", text]) for at, text in events),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_cast(path: Path) -> list[Event]:
    """Returns the events of a recording that `save_cast` or asciinema has written."""
    _, *lines = path.read_text(encoding="utf-8").splitlines()
    return [(at, text) for at, kind, text in map(json.loads, lines) if kind == "o"]


def draw(events: Sequence[Event], out: Path, termtosvg: str) -> None:
    """Draws the events as an animated SVG."""
    with TemporaryDirectory() as folder:
        cast = Path(folder) / "played.cast"
        save_cast(events, cast, rows=DRAWN_ROWS)
        shortest, last = (f"{1000 * seconds:.0f}" for seconds in (FRAME_SECONDS, LAST_SECONDS))
        asked = ["render", str(cast), str(out), "-m", shortest, "-D", last, "-t", str(TEMPLATE)]
        subprocess.run([termtosvg, *asked], check=True)
    out.write_text(resting(out.read_text(encoding="utf-8")), encoding="utf-8")


def resting(drawing: str) -> str:
    """Returns the animation as one that plays once; where nothing plays, as on paper, the last
    picture is shown."""
    *_, last = re.findall(r"translateY\(-?\d+px\)", drawing)
    endless = "animation-iteration-count:infinite;"
    return drawing.replace(
        endless, f"animation-iteration-count:1;\n                transform:{last};"
    )


def main() -> None:
    """Record, or read a recording, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    parser.add_argument("--termtosvg", default="termtosvg")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--from", type=Path, dest="kept")
    asked = parser.parse_args()
    if shutil.which(asked.termtosvg) is None:
        sys.exit(f"{asked.termtosvg} is not there: `pip install termtosvg setuptools`")
    events = read_cast(asked.kept) if asked.kept else record(asked.command)
    if asked.keep:
        save_cast(events, asked.keep)
    draw(played(events, asked.command, SECONDS), asked.out, asked.termtosvg)
    size = asked.out.stat().st_size
    print(f"{events[-1][0]:.0f} s in {SECONDS:.0f} s, {size / 1000:.0f} kB: {asked.out}")


if __name__ == "__main__":
    main()
