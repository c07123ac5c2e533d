"""A study of somebody's own Optuna as rows of a table: a trial is one training."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection, StudySummary
from optuna.trial import FrozenTrial, TrialState

from fathom.objectives.errors import nearest
from fathom.search.formatting import printable
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.store_uri import (
    OPTUNA,
    first_line,
    has_studies,
    sqlite_path,
    without_credentials,
)

ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


def read_study(address: str, name: str | None) -> tuple[str, list[dict[str, Any]]]:
    """The name of a study and a row for each value of its trials' losses.

    `name` may be left out where there is one study.

    Raises:
        ConfigError: when there is no such study, or it does not minimise one loss.
    """
    shown = printable(without_credentials(address))
    with _storage(address, shown) as storage:
        studies = optuna.get_all_study_summaries(storage)
        summary = _chosen(studies, name, shown)
        if summary.directions != [StudyDirection.MINIMIZE]:
            raise ConfigError(
                f"the study {printable(summary.study_name)!r} of {shown} must minimise one loss, "
                f"got {' and '.join(way.name.lower() for way in summary.directions)}; analyse a "
                "CSV of its trials with a column of held-out losses, named by --map COLUMN=loss"
            )
        trials = optuna.load_study(study_name=summary.study_name, storage=storage).trials
    return summary.study_name, [row for trial in trials for row in _rows(trial)]


def _chosen(studies: list[StudySummary], name: str | None, shown: str) -> StudySummary:
    names = [summary.study_name for summary in studies]
    if name is None and len(studies) == 1:
        return studies[0]
    if name in names:
        return studies[names.index(name)]
    listed = ", ".join(map(printable, names)) or "none"
    if name is None:
        raise ConfigError(f"`--experiment` must say which study is meant of {shown}: {listed}")
    hint = nearest(name, names, otherwise=f"it has {listed}")
    raise ConfigError(
        f"`--experiment` must be the name of a study of {shown}, got {printable(name)!r}; "
        f"{printable(hint)}"
    )


@contextmanager
def _storage(address: str, shown: str) -> Iterator[BaseStorage]:
    """Context with Optuna's storage at an address, which has to be there; its errors, of whatever
    type, become a line."""
    plain = address.removeprefix(OPTUNA)
    path = sqlite_path(plain) if "://" in plain else Path(plain)
    if path is not None and not path.is_file():
        raise ConfigError(f"Optuna must be able to read {shown}, got no file there; correct it")
    try:
        if "://" in plain:
            yield RDBStorage(plain, skip_table_creation=True)
        elif has_studies(Path(plain)):
            yield RDBStorage(f"sqlite:///{plain}", skip_table_creation=True)
        else:
            yield JournalStorage(JournalFileBackend(plain))
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"Optuna must be able to read {shown}, got: {printable(first_line(error))} "
            f"({type(error).__name__})"
        ) from error


def _rows(trial: FrozenTrial) -> Iterator[dict[str, Any]]:
    """Yields a row for each value that a trial reported, or for its last; none while it runs."""
    plain = {"trial": trial.number} | trial.user_attrs | trial.params
    if trial.intermediate_values and trial.state in ENDED:
        for step, loss in sorted(trial.intermediate_values.items()):
            yield plain | {"step": step, "loss": loss}
    elif trial.state is TrialState.COMPLETE:
        yield plain | {"loss": trial.value}
