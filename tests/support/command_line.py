"""Commands as a person types them: in a process of their own, or, far sooner, in this one."""

import io
import os
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fathom.search.cli import main
from tests.support.places import ROOT

Done = subprocess.CompletedProcess[str]


def run(*words: object, **options: Any) -> Done:
    """A program in a process of its own, with its output as text."""
    asked = [*map(str, words)]
    return subprocess.run(asked, capture_output=True, text=True, check=False, **options)


def fathom(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Done:
    """The command in a process of its own."""
    known = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"} | environment
    return run(sys.executable, "-m", "search", *arguments, cwd=cwd, env=known, timeout=280)


def here(*arguments: object, cwd: Path | None = None) -> Done:
    """The command in this process, which needs no start of an interpreter."""
    typed = ["fathom", *map(str, arguments)]
    output, complaint = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with (
            chdir(cwd or "."),
            patch.object(sys, "argv", typed),
            patch.object(sys, "unraisablehook", sys.unraisablehook),
            patch.dict(os.environ, COLUMNS="120"),
            redirect_stdout(output),
            redirect_stderr(complaint),
        ):
            main()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return Done(typed, status, output.getvalue(), complaint.getvalue())


def assert_refused(done: Done, *words: str) -> None:
    """Asserts that a command ended with status 2 and one line, which has these words."""
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("fathom: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout.startswith("Study ") or not done.stdout
    assert done.stdout.count("\n") <= 3, "the steps before it"
    for word in words:
        assert word in done.stderr
