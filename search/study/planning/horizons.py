"""A study of several horizons as a study for each."""

from fathom.objectives.keys import parse_horizon, short
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.horizons import counts_tokens, horizon_label, horizon_text


def horizon_studies(config: StudyConfig) -> tuple[StudyConfig, ...]:
    """Returns a study for each horizon of a study, ascending; the study itself if it has one
    horizon only."""
    if not config.horizons:
        return (config,)
    return tuple(
        config.model_copy(
            update={
                "study": f"{config.study}-{horizon_label(horizon)}",
                **_tokens(horizon),
                "horizons": None,
                "horizon_of": config.horizons,
            }
        )
        for horizon in config.horizons
    )


def horizon_name(config: StudyConfig) -> str | None:
    """Returns the short name of a study's horizon among several, such as `20` or `10M`; None if
    `horizon_studies` did not make the study from another."""
    return horizon_label(horizon_of(config)) if config.horizon_of else None


def horizon_words(config: StudyConfig) -> str:
    """Returns the horizon of a study that `horizon_studies` made in words, such as `20 tokens per
    parameter`."""
    return horizon_text(horizon_of(config))


def parent_name(config: StudyConfig) -> str:
    """Returns the name of the whole study to which the study of one horizon belongs."""
    return config.study.removesuffix(f"-{horizon_name(config)}")


def study_at(config: StudyConfig, label: object) -> StudyConfig:
    """Returns the study at the horizon `label`, such as `20` or `10M`; the study itself if it has
    one horizon only.

    Raises:
        ValueError: if it has no such horizon.
    """
    if not config.horizons:
        return config
    for study in horizon_studies(config):
        if is_horizon(label, horizon_name(study)):
            return study
    known = ", ".join(str(horizon_name(study)) for study in horizon_studies(config))
    raise ValueError(f"`horizon` must be one of the study's, {known}, got {short(label)}")


def is_horizon(written: object, label: object) -> bool:
    """True if `written` means the horizon `label`, such as `10m` or `10000000` for `10M`."""
    try:
        return parse_horizon(written) == parse_horizon(label)
    except ValueError:
        return False


def _tokens(horizon: float) -> dict[str, float]:
    """The key that says how long the trainings of a horizon's study are, with its value."""
    if counts_tokens(horizon):
        return {"tokens": int(horizon)}
    return {"tokens_per_parameter": horizon}


def horizon_of(config: StudyConfig) -> float:
    """Returns the horizon of a study that `horizon_studies` made."""
    own = config.tokens if config.tokens is not None else config.tokens_per_parameter
    assert own is not None
    return own
