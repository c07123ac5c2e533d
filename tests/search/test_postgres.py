"""MLflow in a PostgreSQL database: a real server, made for the tests and gone with them."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from search.config import TrackingConfig, dump
from search.record_file import read_records
from search.run import report_study
from tests.search.dry_run import Simulation, conductor, study

pytest.importorskip("psycopg", reason="the `postgres` extra is not installed")


def server_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; Debian keeps it off the PATH."""
    on_path = shutil.which("pg_ctl")
    found = [Path(on_path).parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


@pytest.fixture
def server() -> Iterator[int]:
    """Port of a server on loopback, whose user `fathom` has the password `s3cret`."""
    programs = server_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs")
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to be root's
    if user and user not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip("needs a user `postgres`, since the server refuses to be run by root")
    folder = Path(tempfile.mkdtemp(prefix="fathom-pg-"))
    (folder / "password").write_text("s3cret")
    if user:
        shutil.chown(folder, user)
        shutil.chown(folder / "password", user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "--pgdata", str(folder / "data"), *arguments]
        quiet = subprocess.DEVNULL  # a pipe would stay open in the server
        subprocess.run(
            command, user=user, cwd=folder, stdout=quiet, stderr=quiet, check=True, timeout=100
        )

    run("initdb", "--username=fathom", f"--pwfile={folder}/password", "--auth=scram-sha-256")
    options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
    run("pg_ctl", "start", "--wait", "--options", options, "--log", str(folder / "log"))
    yield port
    run("pg_ctl", "stop", "--mode=immediate")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(300)
def test_a_study_is_mirrored_whole_and_ended(
    server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"postgresql://fathom@127.0.0.1:{server}/postgres"
    config = study(budgets=(20_000,), trials=3)
    search = conductor(config, tmp_path / config.study)
    Simulation(search).run()
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    monkeypatch.setattr("search.report.writer.make_charts", lambda *_: ())
    # The second finds all and repeats nothing.
    for address in (uri, uri.replace("postgresql", "postgresql+psycopg", 1)):
        tracked = config.model_copy(update={"tracking": TrackingConfig(uri=address)})
        search.folder.config.write_text(dump(tracked))
        report_study(search.folder.path)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(config.study)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    assert {run.info.status for run in runs} == {"FINISHED"} | (
        {"KILLED"} if any(r.outcome == "stopped" for r in search.records) else set()
    )
    trials = {run.data.tags["fathom.node"] for run in runs} - {"study", "budget/20000"}
    records = read_records(search.folder.records)
    assert trials == {f"trial/{record.spec.trial}" for record in records}
    assert len(runs) == len(records) + 2
