"""Rows of a table, read from a user's own Optuna study in which each trial is one training."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from fathom.objectives.errors import nearest
from fathom.search.formatting import printable, shell_command
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.store_uri import (
    OPTUNA,
    first_line,
    has_studies,
    pipe_beside,
    sqlite_path,
    without_credentials,
)

ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
OPERATION = re.compile(rb'"op_code": ?(\d+)')
CREATIONS = (b"0", b"4")
"""Operations of a journal that create a study or a trial; the order of these lines numbers the
trials."""
MOST_BYTES = 100_000_000
"""Most bytes of a journal: some 160,000 trials, which take 500 MB and 18 seconds to answer."""
LONGEST_LINE = 1 << 24
"""Most bytes in a line of a journal."""
MOST_TORN = 8
"""Most damaged lines of a journal that a message lists."""


Study = tuple[str, list[dict[str, Any]], tuple[str, ...], bool]


def read_study(address: str, name: str | None) -> Study:
    """The name of a study, a row for each value of its trials' losses, a note on trials without a
    loss, and True if the study maximises, in which case the column is named `value`.

    `name` may be None if there is only one study.

    Raises:
        ConfigError: when there is no such study, or it has several objectives.
    """
    shown = printable(without_credentials(address))
    with _storage(address, shown) as storage:
        study = _chosen(storage.get_all_studies(), name, shown)
        maximises = study.directions == [StudyDirection.MAXIMIZE]
        if not maximises and study.directions != [StudyDirection.MINIMIZE]:
            raise ConfigError(
                f"the study {printable(study.study_name)!r} of {shown} must have one objective, "
                f"got {' and '.join(way.name.lower() for way in study.directions)}; analyse a "
                "CSV of its trials with a column of held-out losses, named by --map COLUMN=loss"
            )
        trials = storage.get_all_trials(study._study_id, deepcopy=False)
    column = "value" if maximises else "loss"
    rows = {trial.number: list(_rows(trial, column)) for trial in trials}
    left = Counter(trial.state.name.lower() for trial in trials if not rows[trial.number])
    states = ", ".join(f"{count} {state}" for state, count in left.items())
    note = f"{left.total()} of {len(trials)} trials without a final loss: left out ({states})"
    return str(study.study_name), [*chain(*rows.values())], (note,) * bool(left), maximises


def _chosen(studies: list[FrozenStudy], name: str | None, shown: str) -> FrozenStudy:
    names = [str(study.study_name) for study in studies]  # may be bytes
    if name is None and len(studies) == 1:
        return studies[0]
    if name in names:
        return studies[names.index(name)]
    listed = ", ".join(map(printable, names)) or "none"
    if name is None:
        raise ConfigError(f"`--experiment` must name a study of {shown}, which has {listed}")
    hint = nearest(name, names, otherwise=f"it has {listed}")
    raise ConfigError(
        f"`--experiment` must be the name of a study of {shown}, got {printable(name)!r}; "
        f"{printable(hint)}"
    )


@contextmanager
def _storage(address: str, shown: str) -> Iterator[BaseStorage]:
    """Context with Optuna's storage at an address, which must exist; any error of Optuna becomes
    one line."""
    plain = address.removeprefix(OPTUNA)
    path = sqlite_path(plain) if "://" in plain else Path(plain)
    if path is not None and not path.is_file():
        raise ConfigError(f"Optuna must be able to read {shown}, got no file there; check the path")
    if path is not None and (pipe := pipe_beside(path)):
        raise ConfigError(f"Optuna must be able to read {shown}, got {pipe}, no file; move it away")
    try:
        if "://" in plain:
            yield RDBStorage(plain, skip_table_creation=True)
        elif has_studies(Path(plain)):
            yield RDBStorage(f"sqlite:///{plain}", skip_table_creation=True)
        else:
            _check_length(Path(plain), shown)
            yield JournalStorage(JournalFileBackend(plain))
    except ConfigError:
        raise
    except Exception as error:
        if path is not None and isinstance(error, ValueError):
            _check_lines(path, shown)
        cause = error.__cause__ or error  # Optuna's own error does not say what the database lacks
        raise ConfigError(
            f"Optuna must be able to read {shown}, got: {printable(first_line(cause))} "
            f"({type(cause).__name__})"
        ) from error


def _check_length(path: Path, shown: str) -> None:
    """Raises `ConfigError` for a file that is too large, or without line ends, which would be read
    as a single line."""
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ConfigError(
            f"{shown} must have at most {MOST_BYTES:,} bytes, got {size:,}; analyse a CSV of a "
            "study's trials instead: `study.trials_dataframe().to_csv('trials.csv')`"
        )
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise ConfigError(
                    f"{shown} must be a database or a journal of Optuna's, got a line of "
                    f"over {LONGEST_LINE:,} bytes; check the path"
                )


def _check_lines(path: Path, shown: str) -> None:
    """Raises `ConfigError` for a journal with lines that are not JSON, as a shared disk may leave
    behind; only the last line may be cut short."""
    with path.open("rb") as file:
        torn = {number: line for number, line in enumerate(file, 1) if not _is_json(line)}
    if not torn:
        return
    numbers = [*torn][:MOST_TORN]
    found = ", ".join(map(str, numbers)) + " and more" * (len(torn) > MOST_TORN)
    remedy = "restore it from a copy"
    if len(torn) <= MOST_TORN and all(map(_can_go, torn.values())):
        script = ";".join(f"{number}d" for number in numbers)
        without = shell_command("sed", script, path)
        remedy = f"drop them: `{without} > whole.log`"
    raise ConfigError(f"{shown}:{numbers[0]}: lines must be JSON, got others ({found}); {remedy}")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _can_go(line: bytes) -> bool:
    """True if a damaged line may be dropped because no later line refers to it: it is blank, or it
    made no trial."""
    operations = OPERATION.findall(line)
    return not line.strip() or (bool(operations) and not {*operations} & {*CREATIONS})


def _rows(trial: FrozenTrial, column: str) -> Iterator[dict[str, Any]]:
    """Yields a row for each value that a trial reported, or for its final value; none while the
    trial runs."""
    plain = {"trial": trial.number} | trial.user_attrs | trial.params
    if trial.intermediate_values and trial.state in ENDED:
        for step, loss in sorted(trial.intermediate_values.items()):
            yield plain | {"step": step, column: loss}
    elif trial.state is TrialState.COMPLETE:
        yield plain | {column: trial.value}
