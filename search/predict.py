"""Depth by a published law, or by the one that a run fitted."""

from pathlib import Path

from search.config import ConfigError, load, parse_count
from search.folder import RunFolder
from search.law import Law, Prediction, fit_laws, levine2020
from search.optimum import find_optima
from search.records import read_records


def predict(params: str, law: str) -> Prediction:
    """The best depth for a size; `law` is `levine2020` or a run folder.

    Raises:
        ConfigError: when the size is no number, or the run has no law.
    """
    try:
        size = parse_count(params)
    except ValueError as error:
        raise ConfigError(f"`--params` {error}") from error
    if law == "levine2020":
        return levine2020(size)
    return _fitted(Path(law)).predict(size)


def _fitted(path: Path) -> Law:
    folder = RunFolder(path)
    if not folder.config.exists():
        raise ConfigError(f"`--law` must be levine2020 or a run folder, got {path}")
    config = load(folder.config)
    laws = fit_laws(find_optima(read_records(folder.records), seed=config.seed))
    if not laws:
        raise ConfigError(
            f"{path} has no law: it takes three budgets whose optimum is identified or a plateau"
        )
    return laws[0]
