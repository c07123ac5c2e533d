"""Refused stores, and the making of a new one: `search/tracking/stores/store.py`."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from mlflow import MlflowClient

from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.made_here import is_stamped
from tests.support.tracked import Place, trial, write_down
from tests.support.waiting import wait_until


@pytest.mark.skipif(find_spec("MySQLdb") is not None, reason="the driver is installed")
def test_a_database_without_its_driver_is_refused_with_what_to_install() -> None:
    with pytest.raises(ValueError, match=r"pip install pymysql` and write mysql\+pymysql://"):
        store.check("mysql://someone@host/runs")


@pytest.mark.parametrize(
    "uri",
    [
        "nonsense://somewhere",
        "http://",
        "http://host:port",
        "sqlite://",
        "sqlite:///{here}",
        "sqlite:///{here}/text.db",
        "sqlite:///{here}/text.db/under/mlflow.db",
        "ftp://someone:hunter2@host",
        "postgresql+nodriver://someone:hunter2@host/runs",
    ],
)
def test_an_unusable_address_is_refused_at_once_in_one_line(uri: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is no database, and long enough to be looked at." * 20)

    with pytest.raises(ValueError, match=r"`tracking\.uri` must be an address") as refusal:
        store.check(uri.format(here=tmp_path))

    assert "\n" not in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_a_database_of_another_mlflow_is_refused_with_its_remedy(place: Place) -> None:
    with sqlite3.connect(place.uri.removeprefix("sqlite:///")) as database:
        database.execute("UPDATE alembic_version SET version_num = 'other'")
    database.close()

    with pytest.raises(ValueError, match="mlflow db upgrade"):
        store.check(place.uri)


def test_a_new_database_appears_whole_and_without_an_empty_experiment(
    template: Path, place: Place
) -> None:
    assert [file.name for file in template.parent.iterdir()] == [template.name]
    assert MlflowClient(f"sqlite:///{template}").search_experiments() == []


def test_a_store_that_another_process_has_locked_is_not_refused(place: Place) -> None:
    with locked(place):
        store.check(f"{place.uri}?timeout=0")


def test_a_store_that_was_locked_at_the_start_is_written_when_it_is_free(place: Place) -> None:
    write_down(place.folder, trial())
    hasty = replace(place, uri=f"{place.uri}?timeout=0")
    with locked(place):
        follower = hasty.follower()
        wait_until(lambda: bool(hasty.said))
    assert "database is locked; the search goes on" in hasty.said[0]
    wait_until(lambda: "MLflow answers again, and has what it missed" in hasty.said)
    assert follower.close() == 0
    assert place.find().data.tags["outcome"] == "finished"


def test_a_store_that_stays_locked_is_named_with_the_command_that_writes_it(place: Place) -> None:
    write_down(place.folder, trial())
    hasty = replace(place, uri=f"{place.uri}?timeout=0")
    with locked(place):
        assert hasty.follower().close(timeout_seconds=1.0) > 0
    assert "`fathom report " in hasty.said[-1]


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """Another process writes to the store meanwhile."""
    database = sqlite3.connect(place.uri.removeprefix("sqlite:///"), isolation_level=None)
    with closing(database):
        database.execute("BEGIN EXCLUSIVE")
        yield


def test_a_store_is_stamped_by_the_mlflow_that_has_opened_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(place.uri.removeprefix("sqlite:///"))
    assert is_stamped(path)
    monkeypatch.setattr(
        "fathom.search.tracking.stores.made_here.installed_version", lambda *_: "another"
    )
    assert not is_stamped(path)
    store.check(place.uri)
    assert is_stamped(path)
