"""An experiment of MLflow as a table: each run is one training, with the history of its loss."""

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from fathom.objectives.errors import nearest
from fathom.search.formatting import printable
from fathom.search.study import store_uri
from fathom.search.tables.columns.columns import choose_columns
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import OpenTable, rows_of
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.artifacts import strange_store

PAGE = 1000
"""Most runs that a server lists in one answer."""
VIEWS = "SELECT name FROM sqlite_master WHERE type = 'view'"
"""Query for the views of an SQLite store; a view executes whatever its maker wrote."""
MOST_NAMES = 10
"""Most experiments that a message names."""
STEP, RUN = "step", "run_id"


def open_experiment(uri: str, experiment: str, told: Mapping[str, str]) -> OpenTable:
    """The runs of an experiment, which is given by name or id, as rows: one for each value of the
    loss.

    Columns of the rows are MLflow's params and metrics; `told` maps the names of some of these to
    Fathom's.

    Raises:
        TrackingError: when the store or the experiment is not there.
    """
    with _client(uri) as client:
        return _rows(client, uri, experiment, told)


def experiments_at(uri: str) -> str:
    """The names of a store's experiments, as text.

    Raises:
        TrackingError: when the store is not there.
    """
    with _client(uri) as client:
        return _names(client)


@contextmanager
def _client(uri: str) -> Iterator[MlflowClient]:
    """Context with a client of a store; MLflow's errors become one line."""
    store.settle()
    store_uri.check_form(uri)
    if store_uri.is_new_file(uri) or ("://" not in uri and not Path(uri).is_dir()):
        raise store_uri.TrackingError(
            f"`--experiment` needs an MLflow store that exists, got {_shown(uri)}; for example "
            "sqlite:///mlflow.db or http://HOST:5000"
        )
    try:
        with _folders_allowed(), _unwritten(uri) as address:
            yield MlflowClient(address)
    except (store_uri.TrackingError, TableError):
        raise
    except Exception as error:
        raise store_uri.TrackingError(
            f"MLflow must answer at {_shown(uri)}, got: {printable(store_uri.first_line(error))}"
        ) from error


@contextmanager
def _unwritten(uri: str) -> Iterator[str]:
    """Context with the address to read a store by: that of a copy, for an SQLite store that was not
    made here. MLflow would write to the store itself, and SQLite would delete files that its
    journal names."""
    path = store_uri.sqlite_path(uri)
    if path is None or not strange_store(uri):
        yield uri
        return
    with TemporaryDirectory() as home:
        copy = Path(home, path.name)
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            if view := target.execute(VIEWS).fetchone():
                raise store_uri.TrackingError(
                    f"an SQLite store of MLflow has no views, but {printable(str(path))} has "
                    f"{printable(view[0])}, which may never end; drop it"
                )
        yield f"sqlite:///{copy}"


@contextmanager
def _folders_allowed() -> Iterator[None]:
    """Context in which MLflow reads a store of older versions, a folder; it refuses these
    otherwise."""
    before = os.environ.get(store_uri.FOLDERS)
    os.environ.setdefault(store_uri.FOLDERS, "true")
    try:
        yield
    finally:
        if before is None:
            del os.environ[store_uri.FOLDERS]


def _rows(client: MlflowClient, uri: str, experiment: str, told: Mapping[str, str]) -> OpenTable:
    found = client.get_experiment_by_name(experiment)
    if found is None and experiment.isdecimal():
        found = client.get_experiment(experiment)
    if found is None:
        known = [each.name for each in client.search_experiments(max_results=MOST_NAMES)]
        near = nearest(experiment, known, otherwise=f"it has {_names(client)}")
        raise store_uri.TrackingError(
            f"`--experiment` must be the name or id of an experiment of {_shown(uri)}, got "
            f"{printable(experiment)!r}; {printable(near)}"
        )
    label = f"MLflow's {printable(found.name)}"
    runs = list(_runs(client, found.experiment_id))
    params = dict.fromkeys(name for run in runs for name in run.data.params)
    metrics = dict.fromkeys(name for run in runs for name in run.data.metrics)
    columns = [*params, *(name for name in metrics if name not in params), RUN, STEP]
    taken = choose_columns(columns, told, label).taken
    histories = [taken[ours] for ours in ("loss", "tokens") if taken.get(ours) in metrics]
    rows = [row for run in runs for row in _history(client, run, params, taken["loss"], histories)]
    if not any(row[STEP] for row in rows):  # final values alone
        for row in rows:
            del row[STEP]
    return replace(rows_of(label, rows), results=frozenset(metrics) - frozenset(params))


def _names(client: MlflowClient) -> str:
    """Names of a store's experiments; MLflow's own empty experiment is left out if there are
    others."""
    names = [each.name for each in client.search_experiments(max_results=MOST_NAMES)]
    shown = [name for name in names if name != "Default"] or names
    return ", ".join(map(printable, shown)) or "none"


def _runs(client: MlflowClient, experiment_id: str) -> Iterator[Run]:
    token: str | None = None
    while True:
        page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _history(
    client: MlflowClient, run: Run, params: Collection[str], loss: str, histories: list[str]
) -> Iterator[dict[str, Any]]:
    """Yields a row for each step at which a run has a loss; a single row for a run without a
    history."""
    # A parent run may have metrics of the names that are parameters of its children.
    numbers = {name: value for name, value in run.data.metrics.items() if name not in params}
    plain = {RUN: run.info.run_id, STEP: 0} | numbers | run.data.params
    if loss not in run.data.metrics:
        yield plain
        return
    values: dict[str, dict[int, float]] = {
        name: {
            point.step: point.value for point in client.get_metric_history(run.info.run_id, name)
        }
        for name in histories
        if name in run.data.metrics
    }
    for step in values[loss]:
        there = {name: history.get(step) for name, history in values.items()}
        yield plain | there | {STEP: step}


def _shown(uri: str) -> str:
    return printable(store_uri.without_credentials(uri))
