"""Answers of a study of several horizons, in the form that programs read."""

from fathom.search.conclusion.token_laws import laws_json
from fathom.search.contract.answers import background_of
from fathom.search.contract.reply import Background, Reply, StatedAnswer
from fathom.search.contract.studies import FromRecords, study_answers
from fathom.search.horizons.answers import HorizonAnswers


def horizons_reply(command: FromRecords, found: HorizonAnswers) -> Reply:
    """The reply of a command on a run folder of several horizons."""
    laws = [found.law] if found.law else []
    answers, background = list[StatedAnswer](), list[Background]()
    for each in found.answers:
        answers += study_answers(
            each.conclusion, found.folder.path / each.conclusion.title, each.label
        )
        background.append(background_of(each.conclusion, each.conclusion.title, horizon=each.label))
    return Reply(
        command=command,
        answers=tuple(answers),
        background=tuple(background),
        token_laws=tuple(laws_json(laws)),
    )
