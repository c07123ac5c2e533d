"""Reads the sizes of a ladder of models from a table, or from the `config.json` of each model."""

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path

from fathom.models.shape import Count
from fathom.objectives.keys import parse_count
from fathom.search.analysis.spending.ladder_check import LadderRung
from fathom.search.formatting import printable
from fathom.search.tables.columns.columns import Columns, choose_columns
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.model_config import Build, config_rung
from fathom.search.tables.grouped.named_types import with_sizes
from fathom.search.tables.open_table import OpenTable
from fathom.search.tables.sources.read import open_text

SIZES: Mapping[Count, str] = {
    Count.TOTAL: "params_total",
    Count.NON_EMBEDDING: "params_non_embedding",
}
"""Rule of counting parameters -> Fathom's name of the column with that count."""
MOST_LAYERS, MOST = 10_000, 10**18
"""The largest depth of a model, and the largest of its other numbers."""


def read_ladder(
    files: Sequence[Path], told: Mapping[str, str], count: Count, build: Build | None = None
) -> list[LadderRung]:
    """The models of a ladder by ascending size under `count`. `told` maps the table's names of
    columns to Fathom's; `build` counts models of types unknown here.

    Raises:
        TableError: when a file is neither a table nor a model's configuration, or a model has no
            depth or size.
    """
    for file in files:
        if not file.is_file():
            raise TableError(
                f"{_label(file)} must be a file with sizes of models, got no file; check the path"
            )
    if all(file.suffix == ".json" for file in files):
        if told:
            raise TableError(
                f"--map names columns of a table, got {_label(files[0])}, which is read by its own "
                "keys; drop it"
            )
        rungs = [config_rung(file, count, build) for file in files]
    elif len(files) == 1:
        with open_text(files[0]) as table:
            rungs = list(_rungs(with_sizes(table, told), told, count))
    else:
        raise TableError(
            f"a ladder must be one table, or a config.json of each model, got {len(files)} files; "
            "name one table"
        )
    if not rungs:
        raise TableError(f"{_label(files[0])} must have a row for each model, got none")
    return sorted(rungs, key=lambda rung: rung.params)


def _label(file: Path) -> str:
    return printable(str(file))


def _rungs(table: OpenTable, told: Mapping[str, str], count: Count) -> Iterator[LadderRung]:
    columns = choose_columns(table.names, told, table.label, needed=("depth",))
    places = {ours: table.names.index(theirs) for ours, theirs in columns.taken.items()}
    name = places.get("run", table.names.index("name") if "name" in table.names else 0)
    for line, cells in table.rows:
        values = {
            ours: cells[place]
            for ours, place in places.items()
            if ours in ("depth", "d_model", "tokens", *SIZES.values())
        }
        if any(value is not None and str(value).strip() for value in cells):
            yield _rung(_Row(table.label, line, values, columns), count, cells[name])


class _Row:
    """The sizes in a row of a ladder."""

    def __init__(
        self, label: str, line: int, values: Mapping[str, object], columns: Columns
    ) -> None:
        self._place, self._values, self._factors = f"{label}:{line}", values, columns.factors

    def number(self, ours: str) -> int | None:
        """The number in one of Fathom's columns; None if the cell is empty."""
        value = self._values.get(ours)
        if value is None or not str(value).strip():
            return None
        most = MOST_LAYERS if ours == "depth" else MOST
        try:
            factor = self._factors.get(ours)
            found = float(str(value)) * factor if factor else float(parse_count(str(value)))
        except ValueError:
            found = nan
        if not 1 <= found <= most:
            raise TableError(
                f"{self._place}: {ours} must be a number from 1 to {most:,}, got "
                f"{printable(str(value))[:60]!r}"
            )
        return round(found)

    def needed(self, ours: str, number: int | None) -> int:
        """`number`, the value of the column `ours` that each row must have; raises `TableError` if
        None."""
        if number is None:
            raise TableError(f"{self._place}: a model must have the {ours}, got none; fill it in")
        return number


def _rung(row: _Row, count: Count, name: object) -> LadderRung:
    depth, width = row.needed("depth", row.number("depth")), row.number("d_model")
    params = row.number(SIZES[count])
    if params is None and count is Count.NON_EMBEDDING and width:
        params = 12 * depth * width**2
    return LadderRung(
        name=printable(str(name)),
        params=row.needed(f"{SIZES[count]}, as the law counts them", params),
        depth=depth,
        d_model=width,
        tokens=row.number("tokens"),
    )
