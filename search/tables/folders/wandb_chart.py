"""Converts a chart exported from W&B's page, with a column for each run and metric, to rows of
runs."""

from collections.abc import Mapping

from fathom.search.tables.folders.logged import STEP, Logged, LoggedRun, Series, table_of
from fathom.search.tables.folders.names import settings_in
from fathom.search.tables.open_table import OpenTable

AXIS = "Step"
SEPARATOR = " - "
"""Text between the name of a run and the name of a metric."""
BOUNDS = ("__MIN", "__MAX")
"""Ends of the names of columns with the lowest and highest of the values behind each point."""
PAGE = ", or export the table of runs from W&B's page, which has their configs"


def as_runs(table: OpenTable, told: Mapping[str, str]) -> OpenTable:
    """The runs of a chart as rows, with the settings in the runs' names; any other table unchanged.

    Raises:
        TableError: when a column that is needed is not there.
    """
    if AXIS not in table.names or not all(SEPARATOR in it for it in table.names if it != AXIS):
        return table
    axis = table.names.index(AXIS)
    places = {
        place: name.rpartition(SEPARATOR)[::2]
        for place, name in enumerate(table.names)
        if SEPARATOR in name and not name.endswith(BOUNDS)
    }
    series: dict[str, dict[str, Series]] = {run: {} for run, _ in places.values()}
    for _, row in table.rows:
        for place, (run, metric) in places.items():
            if row[place] not in (None, ""):
                _add(series[run], metric, row[axis], row[place])
    runs = [
        LoggedRun(name=run, settings={}, named=settings_in([run]), series=measured)
        for run, measured in series.items()
    ]
    lacking = {"depth": PAGE, "size": PAGE, "loss": ""}
    return table_of(Logged(label=table.label, kind="runs", runs=runs, lacking=lacking), told)


def _add(series: dict[str, Series], metric: str, step: object, value: object) -> None:
    """Adds a value of a metric at a step."""
    at = len(series.setdefault(STEP, Series()).at)
    series[STEP].add(at, step)
    series.setdefault(metric, Series()).add(at, value)
