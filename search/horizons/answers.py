"""The answers of all horizons of a study together: their law over tokens, page and best.yaml."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from fathom.search.analysis.optimum import Optimum
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.conclusion.token_laws import PartLaw, part_law, write_token_laws
from fathom.search.export.best import HORIZON, best_entries, entries_yaml
from fathom.search.horizons.folders import HorizonFolder, horizons_in
from fathom.search.report.horizons import HorizonAnswer, horizons_page, law_sentence, write_horizons
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.scheduling.journal import read_run
from fathom.search.study.keys.config import StudyConfig


@dataclass(frozen=True)
class HorizonAnswers:
    """The answers of the horizons of a study whose search has begun, ascending."""

    folder: RunFolder
    config: StudyConfig
    answers: tuple[HorizonAnswer, ...]

    @property
    def optima(self) -> list[Optimum]:
        """The answer of each budget at each horizon."""
        return [optimum for answer in self.answers for optimum in answer.conclusion.optima]

    @cached_property
    def law(self) -> PartLaw | None:
        """The law over parameters and tokens; None where there is none."""
        return part_law(self.optima)

    @property
    def law_sentence(self) -> str:
        """The law over parameters and tokens in words, or why there is none."""
        return law_sentence(self.answers, self.law.law if self.law else None)


def answers_of(folder: RunFolder, config: StudyConfig) -> HorizonAnswers:
    """Returns the answers of a run folder, concluded from the records of its horizons.

    Raises:
        DamagedFileError: at a record that can't be read.
    """
    begun = [each for each in horizons_in(folder, config) if each.began]
    found = (
        conclude_run(each.folder, each.config, read_run(each.folder, each.config)) for each in begun
    )
    return answers_from(folder, config, zip(begun, found, strict=True))


def answers_from(
    folder: RunFolder, config: StudyConfig, found: Iterable[tuple[HorizonFolder, Conclusion]]
) -> HorizonAnswers:
    """Returns the answers of horizons whose conclusions are known."""
    answers = (HorizonAnswer(each.label, each.text, conclusion) for each, conclusion in found)
    return HorizonAnswers(folder, config, tuple(answers))


def publish_answers(found: HorizonAnswers) -> None:
    """Writes best.yaml, the law and the page of all horizons into the folder of the study."""
    entries = [
        {HORIZON: answer.label, **entry}
        for answer in found.answers
        for entry in best_entries(answer.conclusion)
    ]
    write_atomically(found.folder.best, entries_yaml(found.config, entries))
    if found.law:
        write_token_laws(found.folder.token_law, [found.law])
    else:
        found.folder.token_law.unlink(missing_ok=True)
    law = found.law.law if found.law else None
    write_horizons(found.folder.path, answers_page(found), found.answers, law)


def answers_page(found: HorizonAnswers, link: str = "{}/report.html") -> str:
    """Returns the page of all horizons; `link` is the address of a horizon's report, with the name
    of its study for the braces."""
    law = found.law.law if found.law else None
    return horizons_page(found.config, found.answers, law, link=link)
