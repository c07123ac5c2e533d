"""A command in a group of its own: its lines, its end, and that nothing of it stays behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from fathom.search.signals import endings_blocked
from fathom.search.study.keys.command import filled
from fathom.search.training.command.process import CommandProcess
from tests.support.waiting import wait_until

HOSTILE = (
    *("; touch OWNED", "$(touch OWNED)", "`touch OWNED`", "| touch OWNED", "&& touch OWNED"),
    *("a\nb", "\n", "a\tb", "", " ", "'", '"', "a'b\"c", "\\", "*", "~", "$HOME", "%s"),
    *("{}", "{{}}", "{0}", "${IFS}", "!!", "#", "-c", "--", "\x1b[2J", "ä\udcff", ">OWNED"),
)
"""Arguments that a shell, or whoever fills in placeholders twice, takes for something else."""
UNTIL_A_SIGNAL = "while True: time.sleep(0.01)"
"""Short sleeps: a signal that comes just before a sleep begins is handled after it."""
HOSTILE_FOLDER = "{seed} $(touch OWNED); `x`'\"\n"


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def started(script: str, *, grace: float = 20.0, folder: str = ".") -> CommandProcess:
    command = [sys.executable, "-u", "-c", script]
    return CommandProcess(command, os.environ, folder, Path("log"), grace_seconds=grace)


def up(on_sigterm: str, *, grace: float = 20.0) -> CommandProcess:
    """A command that has said it is up and takes SIGTERM so; it runs until a signal ends it."""
    process = started(
        f"import signal, sys, time\nsignal.signal(signal.SIGTERM, {on_sigterm})\n"
        f"print('up')\n{UNTIL_A_SIGNAL}",
        grace=grace,
    )
    assert next(line for line in process.lines(0.2) if line) == b"up\n"
    return process


def abandon(process: CommandProcess) -> None:
    """Leaves the command as the death of its asker would."""
    os.close(process._asker)
    process._asker = -1


def text_of(process: CommandProcess) -> list[str]:
    lines = [line.decode().strip() for line in process.lines(0.2) if line]
    process.stop()
    return lines


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_output_and_errors_are_lines_and_the_status_is_known() -> None:
    process = started("import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)")
    assert sorted(text_of(process)) == ["a", "b"]
    assert process.exit_status == 3


def test_every_argument_and_folder_reaches_the_command_as_it_was_written(tmp_path: Path) -> None:
    script = "import json, os, sys; print(json.dumps([*sys.argv[1:], os.getcwd()]))"
    folder = tmp_path / HOSTILE_FOLDER
    folder.mkdir()
    given = filled((*HOSTILE, "{folder}"), {"folder": folder})
    command = [sys.executable, "-c", script, *given]
    process = CommandProcess(command, os.environ, str(folder), Path("log"), grace_seconds=20.0)
    [line] = text_of(process)
    assert json.loads(line) == [*HOSTILE, str(folder), str(folder)]
    assert [path.name for path in folder.iterdir()] == [], "nothing was run"


def test_a_long_log_keeps_its_two_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.search.training.command.process.KEPT_BYTES", 20)
    text_of(started("print('first'); print('x' * 200); print('last')"))
    log = Path("log").read_text()
    assert log.startswith("first\nxxx")
    assert log.endswith("xxx\nlast\n")
    assert "[fathom: 172 bytes left out]" in log
    assert len(log) < 100


def test_a_command_that_is_silent_yields_empty_lines() -> None:
    process = started("import time; time.sleep(1.5); print('late')")
    lines = list(process.lines(0.2))
    assert b"" in lines
    assert lines[-1] == b"late\n"
    process.stop()


@pytest.mark.parametrize("where", [nullcontext, endings_blocked])
def test_stop_lets_a_command_save_also_where_its_worker_blocks_sigterm(
    where: Callable[[], AbstractContextManager[None]],
) -> None:
    with where():  # the processes of Ray on this machine are started so, and inherit it
        process = up("lambda *_: (print('saved'), sys.exit(0))", grace=60.0)
    process.stop()
    assert Path("log").read_text(encoding="utf-8") == "up\nsaved\n"
    assert process.exit_status == 0


def test_a_command_that_does_not_end_is_killed_after_its_grace() -> None:
    process = up("signal.SIG_IGN", grace=0.5)
    process.stop()
    assert process.exit_status == -signal.SIGKILL


def test_children_of_a_command_end_with_it() -> None:
    process = started(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid)"
    )
    [child] = text_of(process)
    wait_until(lambda: not is_running(int(child)), "the child lives on")


def test_a_command_ends_when_the_process_that_started_it_is_killed() -> None:
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from fathom.search.training.command.process import CommandProcess\n"
        "own = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
        "command = [sys.executable, '-c', own]\n"
        "process = CommandProcess(command, os.environ, '.', Path('log'), grace_seconds=9)\n"
        "for line in process.lines(0.2):\n"
        "    if line: print(line.decode().strip(), flush=True)\n"
    )
    arguments = [sys.executable, "-c", script]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        command = int(worker.stdout.readline())
        assert is_running(command)
        worker.kill()
    wait_until(lambda: not is_running(command), "the command lives on")


def test_a_command_that_does_not_listen_is_gone_soon_after_its_asker_was_killed() -> None:
    process = up("signal.SIG_IGN", grace=600)
    abandon(process)
    process.stop()
    assert process.exit_status == -signal.SIGKILL


def test_the_next_command_waits_for_one_that_still_saves() -> None:
    first = up("lambda *_: (time.sleep(1), print('saved'), sys.exit(0))")
    abandon(first)
    second = started("print('second')")
    assert text_of(second) == ["second"]
    assert Path("log").read_text(encoding="utf-8") == "up\nsaved\nsecond\n"
    first.stop()


def test_a_program_that_is_not_there_has_the_status_of_a_shell() -> None:
    program = ["./no-such-program"]
    process = CommandProcess(program, os.environ, ".", Path("log"), grace_seconds=1.0)
    [line] = text_of(process)
    assert "No such file" in line
    assert process.exit_status == 127


def test_a_folder_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="no-such-folder"):
        started("print()", folder="/no-such-folder")
