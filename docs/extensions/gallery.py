"""The reports that `gallery.md` links and their pictures, made by the commands that it shows."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^fathom analyse (\S+) --report \S+$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_reports(app: Sphinx, error: Exception | None) -> None:
    """Writes `reports/TABLE.html` and `reports/TABLE.png` for the table of each command."""
    if error is not None or app.builder.name != "html":
        return
    page = (Path(app.srcdir) / "gallery.md").read_text(encoding="utf-8")
    reports = Path(app.outdir) / "reports"
    reports.mkdir(exist_ok=True)
    command = [sys.executable, "-P", "-m", "fathom", "analyse"]
    for table in COMMAND.findall(page):
        with TemporaryDirectory() as made:
            asked = [*command, table, "--report", made]
            subprocess.run(asked, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            shutil.copyfile(Path(made) / "report.html", reports / f"{Path(table).stem}.html")
            picture = Path(made) / "figures" / "answer.png"
            shutil.copyfile(picture, reports / f"{Path(table).stem}.png")
