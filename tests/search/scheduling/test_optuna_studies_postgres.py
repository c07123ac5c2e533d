"""Optuna's studies in a real PostgreSQL server: `search/scheduling/optuna_studies.py`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.cluster.doctor.examine import ask_optuna
from fathom.search.cluster.doctor.facts import Severity
from fathom.search.json_lines import read_lines
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling import optuna_studies
from fathom.search.scheduling.optuna_studies import DatabaseStudies
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.groups import TrackingConfig
from fathom.search.study.store_uri import TrackingError, check_optuna
from tests.support.dry_run import TPE_STUDY, Simulation, scheduler, search_into, study
from tests.support.places import ROOT
from tests.support.postgres_server import PASSWORD, Server, driver, running
from tests.support.waiting import LONGEST_SECONDS, wait_until

pytestmark = pytest.mark.drill
driver()


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def address(shared: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database of the test's own; the password is in the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    name = f"t{abs(hash(request.node.name))}"
    shared.create_database(name)
    return shared.address(name)


def stored(address: str) -> RDBStorage:
    """The database as another tool opens it."""
    return RDBStorage(address, engine_kwargs={"poolclass": NullPool})


def in_database(address: str) -> dict[str, list[FrozenTrial]]:
    """Trials by study."""
    storage = stored(address)
    names = optuna.get_all_study_names(storage)
    return {
        name: optuna.load_study(study_name=name, storage=storage).get_trials() for name in names
    }


def ends(trials: list[FrozenTrial]) -> list[tuple[str, str]]:
    return sorted((trial.user_attrs["trial"], trial.user_attrs["outcome"]) for trial in trials)


def recorded(search: Scheduler, params: int) -> list[tuple[str, str]]:
    """The last end of each trial of a budget, by the records."""
    ended = {
        line["trial"]: line["outcome"]
        for line in read_lines(search.folder.records)
        if line["budget"] == params
    }
    return sorted(ended.items())


def assert_whole(address: str, search: Scheduler) -> None:
    """The database holds what the records say, nothing else of this run, and nothing twice."""
    key = search.folder.marker.read_text()[:8]
    studies = {name: trials for name, trials in in_database(address).items() if key in name}
    assert studies.keys() == {f"simulated/{label}-{key}" for label in ("20k", "40k")}
    for params, budget in search.budgets.items():
        trials = studies[f"simulated/{budget.budget.label}-{key}"]
        assert ends(trials) == recorded(search, params)
        assert "RUNNING" not in {trial.state.name for trial in trials}


def test_two_runs_of_one_name_at_once_do_not_mix(address: str, tmp_path: Path) -> None:
    """Both runs start on an empty database without tables."""
    found: list[Scheduler] = []

    def run(path: Path) -> None:
        search, studies = search_into(address, path)
        Simulation(search, seed=int(path.name)).run()
        studies.close()
        found.append(search)

    threads = [threading.Thread(target=run, args=[tmp_path / name]) for name in ("1", "2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for search in found:
        assert_whole(address, search)
        assert not search.folder.optuna.exists(), "the trials are in no file"
    assert len(in_database(address)) == 4


def test_a_killed_run_finds_its_own_studies_again(address: str, tmp_path: Path) -> None:
    """The run is killed while its thread writes."""
    program = f"""if True:
        import os, signal
        from pathlib import Path
        from tests.support.dry_run import Simulation, search_into
        search, _ = search_into({address!r}, Path({str(tmp_path)!r}))
        Simulation(search).run(events=60)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    again, studies = search_into(address, tmp_path)
    assert again.live
    Simulation(again).run()
    studies.close()
    assert_whole(address, again)


def test_trials_of_a_run_without_the_database_are_added_to_it(address: str, tmp_path: Path) -> None:
    Simulation(scheduler(TPE_STUDY, tmp_path)).run(events=60)
    search, studies = search_into(address, tmp_path)
    studies.close()
    assert_whole(address, search)


def test_a_study_deleted_by_another_program_is_written_again(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optuna_studies, "RETRY_SECONDS", 0.1)
    search, studies = search_into(address, tmp_path)
    simulation = Simulation(search)
    simulation.run(events=60)
    wait_until(lambda: len(in_database(address)) == 2, "the database has not both studies")
    for name in in_database(address):
        optuna.delete_study(study_name=name, storage=stored(address))
    simulation.run()
    studies.close()
    assert_whole(address, search)


def test_a_server_that_stops_and_returns_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setattr(optuna_studies, "RETRY_SECONDS", 0.1)
    with running() as server:
        search, studies = search_into(server.address(), tmp_path)
        simulation = Simulation(search)
        simulation.run(events=60)
        server.stop()
        began = time.monotonic()
        simulation.run(events=120)
        assert time.monotonic() - began < LONGEST_SECONDS / 5, "the search waits for no server"
        wait_until(lambda: caplog.records, "nothing is said of the server")
        server.start()
        simulation.run()
        studies.close()
        assert_whole(server.address(), search)
    down, up = (record.getMessage() for record in caplog.records)
    assert "the search goes on, and what they miss is written later" in down
    assert "have what they missed" in up
    assert PASSWORD not in caplog.text


def test_a_server_that_stays_away_costs_the_search_nothing_and_the_next_run_writes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with running() as server:
        search, studies = search_into(server.address(), tmp_path)
        simulation = Simulation(search)
        simulation.run(events=60)
        server.stop()
        simulation.run()
        assert search.done
        studies.close()
        assert "the same command writes them" in caplog.records[-1].getMessage()
        server.start()
        again, studies = search_into(server.address(), tmp_path)
        assert again.done
        studies.close()
        assert_whole(server.address(), again)


def test_a_database_of_another_program_is_refused(address: str, tmp_path: Path) -> None:
    engine = create_engine(address, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("create table alembic_version (version_num varchar(32))"))
    with pytest.raises(TrackingError, match="another program's tables"):
        DatabaseStudies(address, RunFolder(tmp_path))


def test_the_doctor_looks_at_the_database_and_leaves_it_as_it_is(address: str) -> None:
    def found(uri: str | None) -> list[tuple[Severity, str]]:
        config = study(tracking=TrackingConfig(optuna=uri))
        return [
            (finding.level, finding.subject)
            for finding in ask_optuna(config, "sqlite:///runs/mlflow.db")
        ]

    assert found(None) == []
    assert found(address) == [(Severity.OK, "optuna")]
    assert found(f"{address}x") == [(Severity.FAILURE, "optuna")]
    engine = create_engine(address, poolclass=NullPool)
    assert inspect(engine).get_table_names() == []


@pytest.mark.parametrize(
    ("password", "database", "words"),
    [("wrong", "postgres", "password authentication failed"), (PASSWORD, "none", "does not exist")],
)
def test_a_database_that_denies_access_is_refused_with_the_reason(
    shared: Server, tmp_path: Path, password: str, database: str, words: str
) -> None:
    address = shared.address(database).replace("fathom@", f"fathom:{password}@")
    with pytest.raises(TrackingError, match=words) as refusal:
        DatabaseStudies(address, RunFolder(tmp_path))
    assert "\n" not in str(refusal.value)
    assert password not in str(refusal.value)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("sqlite:///runs/optuna.db", "none of PostgreSQL"),
        ("postgresql://someone:hunter2@host", "names no database"),
        ("postgresql://someone:hunter2@host:port/optuna", "can't be read"),
        ("postgresql://someone:hunter2@HOST:5432/mlflow", "MLflow's tables are there"),
    ],
)
def test_an_unusable_address_is_refused_without_a_connection(uri: str, words: str) -> None:
    with pytest.raises(TrackingError, match=words) as refusal:
        check_optuna(uri, mlflow="postgresql+psycopg://other@host/mlflow")
    assert "`tracking.optuna` must be" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_a_server_that_is_down_when_the_search_starts_is_one_line_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    away = f"tracking: {{optuna: 'postgresql://fathom:{PASSWORD}@127.0.0.1:9/optuna'}}\n"
    (tmp_path / "study.yaml").write_text(TWO_BUDGETS + away)
    done = subprocess.run(
        [sys.executable, "-m", "search", "run", "study.yaml"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "`tracking.optuna` must be a PostgreSQL database" in line
    assert "refused" in line
    assert PASSWORD not in line
    assert not (tmp_path / "runs").exists()
