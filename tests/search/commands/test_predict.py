"""Predictions: one size or a table, by a published law or a run's own."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fathom.models.shape import Count
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.laws.token_law import fit_token_law
from fathom.search.analysis.laws.weighed_laws import weigh_laws
from fathom.search.commands import predict
from fathom.search.commands.predict import (
    predict_size,
    predict_table,
    print_prediction,
    print_table,
)
from fathom.search.conclusion.token_laws import PartLaw, write_token_laws
from fathom.search.contract.reply import Reply
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.records import TrialRecord
from fathom.search.run_folder import read_records
from fathom.search.study.file.errors import ConfigError
from tests.support.command_line import assert_refused, here
from tests.support.contract import printed_values, valid
from tests.support.optima import token_ladder
from tests.support.simulated import simulated_study

BUDGETS = (300_000, 1_000_000, 3_000_000)
NULL_LAWS = {"same depth", "same aspect ratio", "cube root"}
STUDY = """
study: simulated
objective: {name: language, corpus: .}
budgets: [300k, 1M, 3M]
seed: 0
"""


def run_of(folder: Path, records: Sequence[TrialRecord]) -> str:
    """A run folder as a study leaves it, as far as predicting needs it."""
    (folder / "config.yaml").write_text(STUDY)
    for record in records:
        append_line(folder / "records.jsonl", to_json(record))
    return str(folder)


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records here are of planted worlds, and the study file beside them is none of theirs."""
    monkeypatch.setattr(
        "fathom.search.conclusion.law_at.read_records", lambda run, _: read_records(run.records)
    )


@pytest.fixture(scope="module")
def study() -> list[TrialRecord]:
    return simulated_study(budgets=BUDGETS)


@pytest.fixture(scope="module")
def run(study: list[TrialRecord], tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_of(tmp_path_factory.mktemp("run"), study)


def test_the_published_law_without_a_size_gives_its_table_of_nine() -> None:
    printed = here("predict", "--law", "levine2020", "--json").stdout
    found = valid(json.loads(printed))["law_table"]

    assert [row["model"] for row in found["published"]] == [
        *("125M", "350M", "760M", "1.3B", "2.7B", "6.7B", "13B", "175B", "1T")
    ]
    assert found["published"][0]["trained_depth"] == 12
    assert found["published"][0]["prediction"]["depth"] == pytest.approx(23.0, abs=0.05)
    assert found["published"][-1]["trained_d_model"] is None
    assert [row["prediction"]["extrapolated"] for row in found["published"]] == 5 * [False] + 4 * [
        True
    ]
    lines = (shown := here("predict").stdout).splitlines()
    assert ["2.7B", "32,", "2560", "2.52B", "47.1", "2111"] in list(map(str.split, lines))
    assert ["1T", "-", "1T", "94.7*", "29657"] in list(map(str.split, lines))
    assert found["note"] in shown
    assert found["note"] == (
        "At 1T the published constants give depth 95; the authors' own blog says 92."
    )


def test_a_run_without_a_size_gives_its_budgets_measured_and_by_its_law(
    run: str, study: list[TrialRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    optima = find_optima(study, seed=0)
    best = weigh_laws(optima)
    assert best

    table = predict_table(run)

    found = table.budgets
    assert [row.budget for row in found] == list(BUDGETS)
    assert [row.measured_depth for row in found] == [optimum.optimal_depth for optimum in optima]
    assert [row.prediction for row in found] == [best.predict(o.budget) for o in optima]
    assert all(row.prediction and row.prediction.law == best.name for row in found)
    assert not any(row.prediction and row.prediction.extrapolated for row in found)
    assert all(row.fitted for row in found)
    print_table(table)
    printed = capsys.readouterr().out
    assert f"the {best.name} laws" in " ".join(printed.split())
    assert "300k" in printed
    assert [set(row.null_laws) for row in found] == 3 * [NULL_LAWS]
    assert table.note in " ".join(printed.split())


def test_a_budget_that_was_not_fitted_is_marked_and_may_be_extrapolated(
    study: list[TrialRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    larger = [
        record
        for record in simulated_study(budgets=(10_000_000,))
        if record.spec.shape.depth in (6, 8)
    ]

    table = predict_table(run_of(tmp_path, [*study, *larger]))

    last = table.budgets[-1]
    assert not last.fitted
    assert last.prediction
    assert last.prediction.extrapolated
    print_table(table)
    assert "not fitted" in capsys.readouterr().out


def test_a_size_is_predicted_by_the_runs_own_law_beside_the_null_laws(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = predict_size("2M", run)
    found = answer.prediction

    assert found.interval
    assert found.interval[0] < found.depth < found.interval[1]
    assert sum(answer.weights.values()) == pytest.approx(1)
    assert not found.extrapolated
    assert predict_size("300M", run).prediction.extrapolated
    assert {law.law for law in answer.null_laws} == NULL_LAWS
    said = printed_values(Reply(command="predict", size=answer))["size"]
    assert [law["depth"] for law in said["null_laws"]] == [law.depth for law in answer.null_laws]
    print_prediction(answer)
    assert "  same depth: " in (printed := capsys.readouterr().out)
    assert "by the laws of depth weighed by how well they fit, " in printed
    assert answer.note in printed
    assert "miss left-out budgets" in answer.note
    assert not predict_size("2M", "levine2020").null_laws


def test_a_run_of_too_few_budgets_or_of_other_units_has_no_law_and_says_why(
    study: list[TrialRecord], tmp_path: Path
) -> None:
    few = run_of(tmp_path, [record for record in study if record.spec.budget != BUDGETS[0]])

    with pytest.raises(ConfigError, match=r"three budgets .* got 1M identified, 3M identified"):
        predict_table(few)
    with pytest.raises(ConfigError, match="takes three budgets"):
        predict_size("1M", few)
    (tmp_path / "heads").mkdir()
    heads = [replace(record, spec=replace(record.spec, count=Count.HEADS)) for record in study]
    with pytest.raises(ConfigError, match="a law is over parameters, but the budgets are heads"):
        predict_size("1M", run_of(tmp_path / "heads", heads))


def test_an_interval_that_says_next_to_nothing_is_said_to_before_its_number(
    capsys: pytest.CaptureFixture[str], run: str
) -> None:
    answer = predict_size("1M", run)
    wide = replace(answer.prediction, interval=(1.0, 911_933.9))
    vague = answer.model_copy(update={"prediction": wide})
    print_prediction(vague)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("The law says next to nothing of this size: 1.0 to over 10,000 layers")
    assert "(95 %: 1.0 to over 10,000)" in second
    print_prediction(answer)
    assert "next to nothing" not in capsys.readouterr().out


def test_a_terminal_breaks_the_lines_between_words(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = predict_size("300M", run)
    print_prediction(answer)
    whole = capsys.readouterr().out
    assert len(whole.splitlines()) == 3 + len(answer.null_laws), "a file has whole lines"
    monkeypatch.setattr(predict, "terminal", lambda: Console(force_terminal=True, width=50))
    print_prediction(answer)
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 50
    assert narrow.split() == whole.split()


def test_a_pipe_is_no_law_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "law")
    refused = here("predict", "--params", "10M", "--law", tmp_path / "law")
    assert_refused(refused, "it is not a regular file")


@pytest.mark.parametrize("params", ["1", "50k"])
def test_a_size_at_which_a_law_has_no_layer_is_refused(params: str) -> None:
    refused = here("predict", "--params", params)
    assert_refused(refused, f"--params {params}: a model has at least one layer, but the law of")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "`--law` must be levine2020, a run folder, or the JSON of `fathom analyse`, got"),
        ("[", "must be the output of `fathom analyse --json` at several horizons: it is not JSON"),
        ("{}", "it lacks `token_laws`"),
        ('{"token_laws": []}', "must have one law over parameters and tokens, got 0"),
        ('{"token_laws": [{"law": {}}]}', "it lacks `a`"),
    ],
)
def test_a_file_without_one_law_over_tokens_is_refused(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "answer.json"
    if text is not None:
        file.write_text(text)
    done = here("predict", "--law", file, "--params", "1B", "--tokens", "20B")

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_tokens_take_a_law_of_several_horizons(run: str, tmp_path: Path) -> None:
    asked = ["predict", "--params", "1B", "--tokens", "20B"]
    assert (
        "`--tokens` needs a law over parameters and tokens, which --law levine2020 is not"
        in here(*asked).stderr
    )
    assert "was searched at one horizon" in here(*asked, "--law", run).stderr
    assert "needs `--params`, the size of the model" in here("predict", "--tokens", "20B").stderr
    law = fit_token_law(token_ladder())
    assert law is not None
    write_token_laws(tmp_path / "token_law.json", [PartLaw(law=law)])

    found = valid(json.loads(here(*asked, "--law", tmp_path, "--json").stdout))["size"][
        "prediction"
    ]

    assert found["tokens"] == 2e10
    assert found["depth"] == pytest.approx(law.predict(1e9, 2e10).depth)
    broken = json.loads((tmp_path / "token_law.json").read_text())
    broken["token_laws"][0]["law"]["a"] = float("nan")
    (tmp_path / "token_law.json").write_text(json.dumps(broken))
    assert "impossible numbers" in here(*asked, "--law", tmp_path).stderr
