"""`fathom ask`: a question becomes a study of smaller models, and their law the answer."""

import json
import math
import random
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from fathom.models.shape import Count
from fathom.objectives.prepare import prepare
from fathom.objectives.text.language.objective import Language
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.api import Study
from fathom.search.api import load as load_run
from fathom.search.contract.reply import Reply, StatedAnswer
from fathom.search.export.best import read_best
from fathom.search.laboratory.ask.answer import (
    Answer,
    answer,
    answer_yaml,
    law_finding,
    lines,
    print_answer,
)
from fathom.search.laboratory.ask.chosen_study import (
    measured_machines,
    most_params,
    prepare_study,
)
from fathom.search.laboratory.ask.question import Question, question
from fathom.search.records import TrialSpec
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.json_schema import modeline
from fathom.search.tracking.writing.publishing import RunResult
from tests.support.command_line import here
from tests.support.contract import printed_values, valid
from tests.support.dry_run import Simulation, scheduler
from tests.support.optima import verdict


def asked(**changes: object) -> Question:
    values = {"params": "1B", "tokens": "2B", "data": "stdlib", "tokenizer": "bytes", "hours": 1.0}
    return question(**(values | {"gpus": 0, "gpu": None, "count": Count.NON_EMBEDDING} | changes))  # type: ignore[arg-type]


def quiet() -> Console:
    return Console(file=StringIO(), width=500)


def printed(question: Question, result: RunResult) -> tuple[StatedAnswer, str]:
    """The answer to a question that was written to mine.yaml, for programs and as text."""
    console = quiet()
    found = print_answer(question, Path("mine.yaml"), 256, result, console)
    assert isinstance(console.file, StringIO)
    return found, console.file.getvalue()


def power_of_a_third(spec: TrialSpec, share: float) -> float:
    """The best depth is 3 at 20k and grows as the cube root of size."""
    best = 3 * (spec.budget / 20_000) ** (1 / 3)
    noise = random.Random(spec.trial).gauss(0, 0.002)
    return 2 + 0.2 * math.log(spec.shape.depth / best) ** 2 + 0.5 * (1 - share) + noise


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A search of three budgets without training, as the question would write it."""
    config = asked().study((20_000, 60_000, 180_000))
    folder = RunFolder(tmp_path_factory.mktemp("runs") / config.study)
    search = scheduler(config, folder.path)
    Simulation(search, power_of_a_third).run()
    folder.config.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return load_run(folder.path)


def answered(study: Study, **changes: object) -> Answer:
    result = answer(asked(**changes), study.conclusion, 256)
    assert result is not None
    return result


def test_small_models_train_as_long_for_their_size_as_the_asked_one() -> None:
    config = asked(params="1B", tokens="30B", gpus=4).study((20_000, 40_000))
    resources = config.resources
    assert (config.tokens_per_parameter, config.count) == (30, Count.NON_EMBEDDING)
    assert (resources.gpus_per_trial, resources.max_concurrent_trials) == (1, 4)
    assert asked(tokens=None).tokens == 20_000_000_000
    assert asked(params="1234567", data="my texts", gpus=2).command == (
        "fathom ask --params 1234567 --tokens 2B --data 'my texts' --tokenizer bytes --hours 1 "
        "--gpus 2 --count non_embedding"
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"params": "many"}, "`--params` must be a positive number"),
        ({"tokens": "-3"}, "`--tokens` must be a positive number"),
        ({"hours": 0.0}, "`--hours` must be above 0, got 0"),
        ({"hours": math.nan}, "`--hours` must be above 0, got nan"),
        ({"count": Count.HEADS}, "`--count` must be `total`"),
    ],
)
def test_an_invalid_question_is_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        asked(**changes)


def test_a_planted_law_is_found_beyond_its_budgets(searched: Study, tmp_path: Path) -> None:
    found = answered(searched, params="600k", tokens="1.2M")
    assert found.prediction.interval is not None
    assert found.prediction.interval[0] < 3 * 30 ** (1 / 3) < found.prediction.interval[1]
    assert found.beyond == pytest.approx(600 / 180, rel=0.01)
    assert found.shape.depth == round(found.prediction.depth)
    assert found.shape.params_non_embedding == pytest.approx(600_000, rel=0.005)
    values = law_finding(found)
    assert (values.depth, values.interval) == (found.prediction.depth, found.prediction.interval)
    assert values.by_law is not None
    assert values.by_law.times_beyond == found.beyond
    far = "3.33 times larger than the largest budget, and the budgets span 9 times"
    assert far in "\n".join(lines(found))
    near = answered(searched, params="100k", tokens="200k")
    assert "nothing is extrapolated" in "\n".join(lines(near))
    (tmp_path / "answer.yaml").write_text(answer_yaml(found))
    best = read_best(tmp_path / "answer.yaml", None)
    assert (best.shape, best.config.tokens) == (found.shape, 1_200_000)


def test_without_a_law_the_answer_says_so_and_what_to_do(searched: Study) -> None:
    found = searched.conclusion
    lawless = RunResult(searched.folder, replace(found, optima=found.optima[:2]))
    none, text = printed(asked(), lawless)
    assert (none.answer, none.verdict.kind) == (None, Kind.NO_ANSWER)
    printed_values(Reply(command="ask", answers=(none,)))
    assert "No answer, because there is no law: it takes three budgets" in text
    assert "edit mine.yaml, give it another `study` name, and ask again" in text


def test_a_size_that_was_searched_is_answered_by_its_search(
    searched: Study, tmp_path: Path
) -> None:
    result = RunResult(RunFolder(tmp_path), searched.conclusion)
    found, text = printed(asked(params="60k", tokens="120k"), result)
    assert found.answer is not None
    depth = searched.conclusion.optima[1].optimal_depth
    assert (found.answer.depth, found.answer.by_law) == (depth, None)
    printed_values(Reply(command="ask", answers=(found,)))
    assert "by a search of this size: nothing is extrapolated" in text
    assert f"fathom train {tmp_path} --params 60k" in text
    assert not (tmp_path / "answer.yaml").exists()


def test_a_search_that_leaves_the_depth_open_is_no_answer(searched: Study) -> None:
    question = asked(params="20k", tokens="40k")
    open_ended = replace(searched.conclusion.optima[0], verdict=verdict(Kind.EDGE))
    config = question.study((20_000,))
    lawless = replace(searched.conclusion, optima=(open_ended,), config=config)
    found, text = printed(question, RunResult(searched.folder, lawless))
    assert (found.verdict.kind, found.verdict.settled) == (Kind.EDGE, False)
    assert "the search of 20k leaves its best depth open" in text


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose speed is not measured but given."""
    place = "fathom.search.laboratory.ask.chosen_study.measure_here"
    monkeypatch.setattr(place, lambda *_: (1e8, 2e10))


@pytest.mark.usefixtures("measured")
def test_a_question_writes_the_study_that_answers_it(tmp_path: Path) -> None:
    file, console = tmp_path / "ask.yaml", quiet()
    small = asked(params="1M", tokens="50M", hours=40.0)

    config, _ = prepare_study(small, file, console, tmp_path)

    assert load(file) == config
    assert file.read_text().splitlines()[1] == f"# {small.command}"
    assert len(config.budgets) >= 3
    assert "is read from their law" in file.read_text()


def test_where_the_text_and_not_the_time_is_the_limit_that_is_said(tmp_path: Path) -> None:
    file, console = tmp_path / "ask.yaml", quiet()
    config, _ = prepare_study(asked(gpus=1, gpu="H100", hours=1e4), file, console, tmp_path)
    assert isinstance(console.file, StringIO)
    for text in (file.read_text(), console.file.getvalue()):
        assert "4.0 epochs of the text, which allows no larger model: more text would." in text
    assert config.budgets[-1] % 100_000 == 0


@pytest.mark.usefixtures("measured")
def test_too_few_hours_are_answered_with_tokens_that_fit_them_or_with_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "fathom.search.laboratory.ask.chosen_study.search_hours"
    monkeypatch.setattr(place, lambda plans, _: plans[0].budget.tokens / 1e6)
    long = asked(params="20k", tokens="10M", hours=5)
    with pytest.raises(ConfigError, match=r"5 h allow `--tokens 3\.5M`"):
        prepare_study(long, tmp_path / "ask.yaml", quiet(), tmp_path)
    allowed = asked(params="20k", tokens="3.5M", hours=5)
    assert prepare_study(allowed, tmp_path / "ask.yaml", quiet(), tmp_path)[0].budgets == (20_000,)
    short = asked(params="20k", tokens="10M", hours=0.05)
    with pytest.raises(ConfigError, match="more time: fewer `--tokens` do not fit either"):
        prepare_study(short, tmp_path / "other.yaml", quiet(), tmp_path)


@pytest.mark.usefixtures("measured")
def test_a_small_size_is_searched_itself(tmp_path: Path) -> None:
    small = asked(params="10k", tokens="200k")
    config, _ = prepare_study(small, tmp_path / "ask.yaml", quiet(), tmp_path)

    assert config.budgets == (10_000,)
    assert "The size that is asked for, searched itself" in (tmp_path / "ask.yaml").read_text()


def test_the_plan_of_a_question_is_shown_again_and_as_json_and_nothing_is_searched(
    tmp_path: Path,
) -> None:
    typed = ("ask", "--params", "10k", "--tokens", "200k", "--hours", "1")
    first, again = (here(*typed, "--plan", cwd=tmp_path) for _ in range(2))
    for done in (first, again):
        assert done.returncode == 0, done.stderr
        assert "ask-10k-200k: non-embedding parameters" in done.stdout
        assert done.stdout.splitlines()[-1].split() == ["Next", "fathom", *typed]
    news = {*again.stdout.splitlines()} - {*first.stdout.splitlines()}
    assert "ask-10k-200k.yaml holds this question already, and is used unchanged" in news

    told = here(*typed, "--plan", "--json", cwd=tmp_path)
    assert valid(json.loads(told.stdout))["command"] == "plan"
    assert not (tmp_path / "runs" / "ask-10k-200k").exists()


def test_the_same_question_continues_with_its_file_and_another_leaves_it_alone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "ask.yaml"
    keys = asked().keys((20_000, 40_000, 80_000)) | {"trials": 5}
    file.write_text(f"{modeline()}\n# {asked().command}\n" + yaml.safe_dump(keys))

    assert prepare_study(asked(), file, quiet(), tmp_path)[0].trials == 5
    with pytest.raises(ConfigError, match=r"holds another question \(fathom ask --params 1B"):
        prepare_study(asked(params="2B"), file, quiet(), tmp_path)
    assert load(file).trials == 5


def language(question: Question) -> Language:
    objective = prepare(question.study((20_000,)).objective)
    assert isinstance(objective, Language)
    return objective


def test_the_speed_of_a_size_is_measured_once() -> None:
    config = asked().study((20_000,))
    machine = this_machine(config.resources, config.train)
    machine_of = measured_machines(asked(), language(asked()), machine)
    first = machine_of(30_000)
    assert 1e7 < first.speed.flops_per_second(1e8) < 1e13
    assert machine_of(35_000) is first


def test_where_the_gpus_are_not_here_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.search.study.hardware.machine._gpus", lambda: ())
    question = asked(gpus=8, gpu="h100")
    config = question.study((20_000,))
    machine = this_machine(config.resources, config.train, question.gpu)
    machine_of = measured_machines(question, language(question), machine)
    assert machine_of(10**9) is machine
    assert machine.description == "H100 GPUs, 8 trials at a time"
    assert "--gpus 8 --gpu H100" in question.command
    assert asked(gpu="L4").gpus == 1
    with pytest.raises(ConfigError, match="`--gpu` must be one of T4, L4"):
        asked(gpu="RTX")


def test_a_small_text_bounds_the_budgets(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a line of text, and another one\n" * 4000)
    question = asked(data=str(text))
    most = most_params(question, len(language(question).train))
    assert most == pytest.approx(4 * 0.9 * 128_000 / 2, rel=0.01)
