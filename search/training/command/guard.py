"""Runs a command in a process group that ends when the asking process ends.

python -I -S guard.py STATUS GRACE COMMAND...

Standard input is a pipe that the asking process holds. If that process writes to the pipe and
closes it, it asks for an end: the group gets SIGTERM, and SIGKILL GRACE seconds later. If the pipe
closes without any input, that process was killed: the group gets SIGTERM, and SIGKILL
`ORPHAN_SECONDS` later. At the end the guard writes the command's exit status to the file descriptor
STATUS. The guard first leaves the process tree of the worker, since Ray kills a worker's children
with it.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

ORPHAN_SECONDS = 2.0
"""Seconds from SIGTERM to SIGKILL if the asking process was killed: nobody waits for the command
any more, and another command may soon start in its place."""


def main() -> None:
    """Starts the command and waits until it has ended."""
    status, grace, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_hear_signals
        )
    except OSError as error:
        print(error, flush=True)
        os.write(status, b"127")
        os._exit(0)
    threading.Thread(target=_end_with_asker, args=(process.pid, grace), daemon=True).start()
    code = process.wait()
    _signal(process.pid, signal.SIGKILL)
    os.write(status, str(code).encode())
    os._exit(0)


def _hear_signals() -> None:
    """Unblocks SIGTERM for the command, since Ray's processes and their children block it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _end_with_asker(group: int, grace: float) -> None:
    """Waits until the asking process closes its pipe, then ends the group."""
    asked = sys.stdin.buffer.read()
    _signal(group, signal.SIGTERM)
    seconds = grace if asked else min(grace, ORPHAN_SECONDS)
    threading.Timer(seconds, _signal, (group, signal.SIGKILL)).start()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    main()
