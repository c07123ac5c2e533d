"""Epochs that a training takes of its study's data."""

from fathom.search.study.keys.config import StudyConfig


def epochs_at_least(config: StudyConfig, tokens: int) -> float | None:
    """Epochs that so many tokens take of the data, by the most tokens that these may have; None
    where that is not known.

    Raises:
        ObjectiveError: when the data can't be read.
    """
    epoch = config.objective.most_train_tokens()
    return tokens / epoch if epoch else None
