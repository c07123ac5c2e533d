"""A real PostgreSQL server, made for a test and gone with it."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "s3cret"


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server on loopback, for the user `fathom` with the password above."""

    programs: Path
    folder: Path
    user: str | None
    """Who runs it: the server refuses to be root's."""
    port: int

    def address(self) -> str:
        """Address of the server, without the password."""
        return f"postgresql://fathom@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Make the server's files."""
        (self.folder / "password").write_text(PASSWORD)
        if self.user:
            shutil.chown(self.folder, self.user)
            shutil.chown(self.folder / "password", self.user)
        owner = ("--username=fathom", f"--pwfile={self.folder}/password")
        self._run("initdb", *self._data(), *owner, "--auth=scram-sha-256")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -F"
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", *self._data(), "--wait", "--options", options, "--log", log)

    def stop(self) -> None:
        """Stop the server like a crash; committed data survive."""
        self._run("pg_ctl", "stop", *self._data(), "--mode=immediate")

    def _data(self) -> tuple[str, str]:
        return ("--pgdata", str(self.folder / "data"))

    def _run(self, program: str, *arguments: str) -> None:
        quiet = subprocess.DEVNULL  # a pipe would stay open in the server
        subprocess.run(
            [str(self.programs / program), *arguments],
            user=self.user,
            cwd=self.folder,
            stdout=quiet,
            stderr=quiet,
            check=True,
            timeout=100,
        )


def driver() -> Any:
    return pytest.importorskip("psycopg", reason="the `postgres` extra is not installed")


@contextmanager
def running() -> Iterator[Server]:
    """A server for as long as the block lasts; skips the test where none can be had."""
    driver()
    programs = _programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs")
    user = "postgres" if os.geteuid() == 0 else None
    if user and user not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip("needs a user `postgres`, since the server refuses to be run by root")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    server = Server(programs, Path(tempfile.mkdtemp(prefix="fathom-pg-")), user, port)
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; Debian keeps it off the PATH."""
    on_path = shutil.which("pg_ctl")
    found = [Path(on_path).parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)
