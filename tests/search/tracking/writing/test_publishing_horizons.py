"""The answers of all horizons together: in files, on the page, and for commands."""

import json
import math
import random
from pathlib import Path
from urllib.request import urlopen

import pytest
from rich.console import Console

from fathom.search.commands.live_report import live_reports
from fathom.search.commands.predict import predict_size
from fathom.search.commands.run_status import all_runs_reply
from fathom.search.commands.searching import _print_report, status
from fathom.search.conclusion.comparison import compare_runs
from fathom.search.contract.studies import study_reply
from fathom.search.export.best import best_yaml, read_best, select
from fathom.search.records import TrialSpec
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import dump
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_studies
from fathom.search.study.runs import one_run, runs_of
from fathom.search.tracking.stores.key import Key
from fathom.search.tracking.writing.pages import study_tags
from fathom.search.tracking.writing.publishing import StudyResult, publish_study, study_result
from tests.support.command_line import here
from tests.support.contract import printed_values, valid
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.reporting import visible

PARENT = study(study="many", tokens=None, tokens_per_parameter=None, horizons=(5.0, 20.0, 80.0))


def deeper_with_tokens(spec: TrialSpec, share: float) -> float:
    """Losses that are lowest at a depth that grows with parameters and with tokens."""
    best = 4 * (spec.horizon_tokens / spec.budget / 5) ** 0.3 * (spec.budget / 20_000) ** 0.2
    noise = random.Random(f"{spec.trial} {spec.horizon_tokens}").gauss(0, 0.002)
    depth = math.log(spec.shape.depth / best) ** 2
    return 2.0 + 0.2 * depth + (1 - share) * (0.5 + 0.02 * spec.shape.depth) + noise


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose horizons were searched, without training."""
    path = tmp_path_factory.mktemp("runs") / "many"
    for config in horizon_studies(PARENT):
        search = scheduler(config, path / config.study)
        Simulation(search, deeper_with_tokens).run()
        search.folder.config.write_text(dump(config))
    RunFolder(path).state.mkdir()
    RunFolder(path).config.write_text(dump(PARENT))
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> StudyResult:
    answers = study_result(folder)
    publish_study(answers)
    return answers


def test_the_best_shapes_are_told_by_budget_and_horizon(folder: Path, found: StudyResult) -> None:
    best = found.folder.best
    labels = [config.study for config in horizon_studies(PARENT)]

    chosen = [read_best(best, "40k", horizon) for horizon in ("5", "20", "80")]

    assert [each.config.study for each in chosen] == labels
    assert [each.config.tokens_per_parameter for each in chosen] == [5, 20, 80]
    depths = [each.shape.depth for each in chosen]
    assert depths == sorted(depths)
    assert depths[0] < depths[-1]
    with pytest.raises(ConfigError, match=r"holds the horizons 5, 20, 80; choose one with --hor"):
        read_best(best, "40k")
    with pytest.raises(ConfigError, match=r"has no horizon 10; it holds 5, 20, 80"):
        read_best(best, "40k", "10")
    (folder / "one.yaml").write_text(best.read_text().replace("horizon: ", "was: "))
    with pytest.raises(ConfigError, match="one horizon only; drop --horizon 5"):
        read_best(folder / "one.yaml", "40k", "5")


def test_what_is_exported_of_one_horizon_is_trained_as_that(
    folder: Path, found: StudyResult
) -> None:
    exported = folder / "exported.yaml"
    exported.write_text(select(found.folder.best, "40k", "20"))

    assert read_best(exported, None) == read_best(found.folder.best, "40k", "20")


def test_the_best_shapes_of_one_horizon_alone_take_its_own_name_and_no_other(
    folder: Path, found: StudyResult
) -> None:
    alone = folder / "alone.yaml"
    alone.write_text(best_yaml(found.conclusions[1]))

    assert read_best(alone, "40k", "20") == read_best(found.folder.best, "40k", "20")
    with pytest.raises(ConfigError, match="one horizon only; drop --horizon 80"):
        read_best(alone, "40k", "80")


def test_the_page_links_every_horizon_and_has_a_row_for_each_budget_and_horizon(
    found: StudyResult,
) -> None:
    page = found.folder.report.read_text()

    for label in ("5", "20", "80"):
        assert f'href="many-{label}/report.html"' in page
    assert page.count("tokens per parameter</span>") == 3 * len(PARENT.budgets)
    assert "law over parameters and tokens" in visible(page)
    assert 'id="depth-against-tokens"' in page
    assert (found.folder.figures / "depth-against-tokens.svg").exists()
    rows = (found.folder.path / "tables" / "optima.csv").read_text().splitlines()
    assert rows[0].startswith("horizon,budget,")
    assert len(rows) == 1 + 3 * len(PARENT.budgets)


def test_the_law_over_tokens_is_there_for_predict(folder: Path, found: StudyResult) -> None:
    assert found.law is not None
    low, high = found.law.law.drift_interval
    assert low < 0.3 < high

    answer = predict_size("40k", str(folder), "800k")

    assert answer.prediction.depth == pytest.approx(6.1, rel=0.3)
    with pytest.raises(ConfigError, match="is over parameters and tokens; give --tokens"):
        predict_size("40k", str(folder))


def test_json_and_terminal_have_every_horizon(
    found: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    values = printed_values(study_reply("report", found.runs))
    _print_report(found, Console(width=120))

    names = [each["question"]["horizon"]["name"] for each in values["answers"]]
    assert list(dict.fromkeys(names)) == ["5", "20", "80"]
    assert len(names) == 3 * len(PARENT.budgets)
    assert len(values["token_laws"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("tokens per parameter") == 3 * len(PARENT.budgets)
    assert printed.count("best shape, as in best.yaml") == 3, "the table of each horizon"
    assert "fathom train" in printed
    assert "--horizon 20" in printed, "the longest with a settled answer: 80 ends at the deepest"


def test_status_shows_every_horizon_and_those_not_begun(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, last = runs_of(folder)
    hidden = last.folder.path.rename(folder / "hidden")
    try:
        status(folder)
        text = capsys.readouterr().out
        status(folder, as_json=True)
        values = json.loads(capsys.readouterr().out)
        every = printed_values(all_runs_reply(folder.parent))
        with pytest.raises(RunFolderError, match="at the horizon 80 has not begun; `fathom run"):
            one_run(folder, "80")
    finally:
        hidden.rename(last.folder.path)

    assert "many-5: done" in text
    assert "many-80: not begun" in text
    assert f"fathom run {folder}/config.yaml" in " ".join(text.split())
    assert [run["study"] for run in every["runs"]] == ["many-5", "many-20", "many-80"]
    assert [each["state"] for each in valid(values)["runs"]] == ["done", "done", "not begun"]
    missing = [each for each in values["answers"] if each["question"]["horizon"]["name"] == "80"]
    assert {each["verdict"]["kind"] for each in missing} == {"unfinished"}


def test_a_run_folder_of_several_horizons_has_a_run_for_each(folder: Path) -> None:
    assert [run.horizon for run in runs_of(folder)] == ["5", "20", "80"]
    assert one_run(folder, "20") == runs_of(folder)[1]
    assert one_run(folder, "20") == one_run(folder / "many-20")
    with pytest.raises(RunFolderError, match="at the horizons 5, 20, 80; choose one with --hor"):
        one_run(folder)
    with pytest.raises(RunFolderError, match="has no horizon 10; it was searched at 5, 20, 80"):
        one_run(folder, "10")


def test_a_command_that_needs_one_horizon_takes_it_or_names_them(
    folder: Path, found: StudyResult
) -> None:
    for command in ("report --card", "latency", "predict --law"):
        verb, *options = command.split()
        refused = here(verb, *options, str(folder))
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "5, 20, 80" in refused.stderr
        assert "--horizon" in refused.stderr
    told = here("predict", "--law", str(folder), "--params", "40k", "--horizon", "20")
    assert "many-20 has no law: it takes three budgets" in told.stderr
    card = here("report", str(folder), "--card", "--horizon", "20")
    assert card.stdout.startswith("# many-20")


def test_commands_that_take_several_runs_take_each_horizon(folder: Path) -> None:
    done = here("analyse", str(folder), "--json")
    answers = valid(json.loads(done.stdout))["answers"]
    names = [answer["question"]["horizon"]["name"] for answer in answers]
    assert sorted(set(names)) == ["20", "5", "80"]
    assert [study.name for study in compare_runs([folder]).studies] == [
        "many-5",
        "many-20",
        "many-80",
    ]
    with pytest.raises(ConfigError, match="at least two run folders are needed, got 1"):
        compare_runs([folder], "20")


def test_reports_of_the_study_and_its_horizons_are_served(folder: Path, found: StudyResult) -> None:
    key = Key()
    with live_reports(folder.parent, port=0, key=key, study_page=lambda _: "") as served:
        address = f"{served.removesuffix(key.query)}{key.secret}/"
        parent, one = (
            urlopen(f"{address}{name}/", timeout=60).read().decode() for name in ("many", "many-20")
        )

    assert 'href="../many-20/"' in parent
    assert "many-20" in one


def tags(config: StudyConfig) -> dict[str, str]:
    return study_tags((), config)


def test_mlflow_is_told_the_horizon_and_the_study_it_is_of() -> None:
    _, middle, _ = horizon_studies(PARENT)

    assert tags(middle) == {"best_depth": "", "horizon": "20", "study_of_horizons": "many"}
    assert tags(study()) == {"best_depth": ""}
