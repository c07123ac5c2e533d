"""Finds the law that --law names: a published one, or that of a run folder or an analysis."""

from pathlib import Path

from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.conclusion.named_law import (
    PUBLISHED,
    NamedLaw,
    law_over_sizes,
    law_over_tokens,
)
from fathom.search.conclusion.token_laws import read_token_law
from fathom.search.formatting import shell_command
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load
from fathom.search.study.own_records import read_records


def law_at(law: str, *, needs_tokens: str = "") -> NamedLaw:
    """The law that --law names: `levine2020`, a run folder or its best.yaml, or the JSON of an
    analysis of several horizons. `needs_tokens` is the option, if any, that needs a law over
    parameters and tokens.

    Raises:
        ConfigError: when there is no such law, or it is not over tokens though an option needs
            that.
        RunFolderError: when the run folder is damaged.
    """
    if law in PUBLISHED:
        if needs_tokens:
            raise ConfigError(
                f"`{needs_tokens}` needs a law over parameters and tokens, which --law {law} is "
                "not; leave it out"
            )
        return PUBLISHED[law]
    path, folder = Path(law), RunFolder(Path(law).parent)
    if path != folder.best:
        folder = RunFolder(path)
        if path.exists() and not path.is_dir():
            return law_over_tokens(law, read_token_law(path))
    folder.check_files()
    if folder.token_law.exists():
        return law_over_tokens(law, read_token_law(folder.token_law))
    return law_over_sizes(law, _optima(law, folder, needs_tokens))


def _optima(law: str, folder: RunFolder, needs_tokens: str) -> tuple[Optimum, ...]:
    """The answers of a run folder of one horizon."""
    path = folder.path
    folder.check_config()
    if not folder.config.exists():
        raise ConfigError(
            f"`--law` must be {', '.join(PUBLISHED)}, a run folder, or the JSON of "
            f"`fathom analyse`, got {law}"
        )
    config = load(folder.config)
    again = shell_command("fathom", "report", path)
    if needs_tokens and config.count.frees_size:
        raise ConfigError(
            f"{path} has no law over parameters and tokens, since it fixes {config.count.unit}; "
            f"`{again}` says the best size and depth of each, and their law once three are settled"
        )
    if config.horizons:
        raise ConfigError(
            f"{path} has no law over parameters and tokens; `{again}` says why; the folder of one "
            "horizon in it may have a law over parameters"
        )
    if needs_tokens:
        raise ConfigError(
            f"`{needs_tokens}` must be left out with {path}, which was searched at one horizon; a "
            "table of several horizons has a law over tokens: see `fathom analyse --horizons`"
        )
    return find_optima(read_records(folder, config), seed=config.seed)
