"""Tables with a fault get no answer without a word on it, and sound ones get their answer."""

import numpy as np
import pytest

from fathom.search.analysis.answer.verdict import BelowMeasured, FewRuns, Kind, UnknownSettings
from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion
from fathom.search.tables.sources.read import open_text
from fathom.search.words import table_reason
from tests.support.faulty import FAULTS, SOUND, Row
from tests.support.places import SHARED_DATA

CASES = SHARED_DATA.parent / "cases"
ASKED = TableQuestion()
DRAWS = range(2)
SETTLED = (Kind.IDENTIFIED, Kind.PLATEAU, Kind.EDGE)


def is_silent(kind: str, draw: int) -> bool:
    """True if a faulty table has a settled answer, and nothing says what is wrong with it."""
    faulty = FAULTS[kind](np.random.default_rng([draw, len(kind)]))
    try:
        analysis = analyse_table(rows_of("t", faulty.rows), faulty.told, ASKED)
    except TableError as error:
        return faulty.word not in str(error) or "\n" in str(error)
    optima = [optimum for found in analysis.findings for optimum in found.optima]
    said = [*analysis.notes, *(table_reason(optimum.verdict) for optimum in optima)]
    return any(o.kind in SETTLED for o in optima) and faulty.word not in " ".join(said)


def refusal(rows: list[Row]) -> str:
    """What a table is refused for, whole or at one of its sizes; empty if it is not."""
    try:
        analysis = analyse_table(rows_of("t", rows), {}, ASKED)
    except TableError as error:
        return str(error)
    refused = (FewRuns, UnknownSettings, BelowMeasured)
    verdicts = [optimum.verdict for found in analysis.findings for optimum in found.optima]
    return "; ".join(table_reason(v) for v in verdicts if isinstance(v.cause, refused))


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_said(kind: str) -> None:
    assert not is_silent(kind, draw=0)


@pytest.mark.parametrize("kind", ["some failed", "classes", "optuna", "shapes", "horizons"])
def test_a_sound_table_has_its_answer(kind: str) -> None:
    assert refusal(SOUND[kind](np.random.default_rng(len(kind)))) == ""


@pytest.mark.drill
def test_of_forty_faulty_tables_none_is_silent_and_of_forty_sound_ones_one_is_refused() -> None:
    faulty = [(kind, draw) for kind in FAULTS for draw in DRAWS]
    assert [table for table in faulty if is_silent(*table)] == []

    sound = [(kind, draw) for kind in SOUND for draw in DRAWS]
    refused = {
        (kind, draw): text
        for kind, draw in sound
        if (text := refusal(SOUND[kind](np.random.default_rng([draw, len(kind)]))))
    }
    assert len(sound) == 40
    assert len(refused) <= 1, refused


@pytest.mark.skipif(not CASES.exists(), reason="needs the cases of other people")
@pytest.mark.parametrize(
    ("case", "word"),
    [
        ("14-accuracy-by-depth/espnet_named_value.csv", "more than a guess"),
        ("41-hpo-table-random-settings/four_fields_only.csv", "settings that the table lacks"),
    ],
)
def test_a_table_of_other_people_is_refused_with_the_reason(case: str, word: str) -> None:
    with open_text(CASES / case) as table, pytest.raises(TableError, match=word):
        analyse_table(table, {}, ASKED)


@pytest.mark.skipif(not CASES.exists(), reason="needs the cases of other people")
def test_final_losses_whose_settings_are_ignored_have_no_answer() -> None:
    names = ("use_x_norm", "use_qk_norm", "use_all_norm", "linear", "embedding_type")
    told = dict.fromkeys((*names, "model_scale_method"), "ignore")
    with open_text(CASES / "02-snimu-curves-in-cells" / "final_losses.csv") as table:
        analysis = analyse_table(table, told, TableQuestion(width=0.2))

    [optimum] = analysis.findings[0].optima
    assert isinstance(optimum.verdict.cause, UnknownSettings)
    assert "the layers have 7.08M parameters at depth 4 and 28.3M" in " ".join(analysis.notes)
