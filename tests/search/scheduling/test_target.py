"""A study with a target: where larger budgets begin, what is bought, and when nothing more is."""

import math
import os
import random
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from fathom.search.json_lines import append_line
from fathom.search.record_json import DamagedFileError
from fathom.search.records import Outcome, Stage, TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.outlook import read_outlook
from fathom.search.scheduling.scheduler import Scheduler
from tests.support.dry_run import Simulation, scheduler
from tests.support.killed_appends import SearchKilled
from tests.support.target_ladder import BUDGETS, config, growing, run
from tests.support.whole_records import differences, whole_records


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    search = run(tmp_path_factory.mktemp("ladder") / "run", config())
    assert search.done
    return search


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    """A search that buys nothing once each budget has its answer."""
    search = run(tmp_path_factory.mktemp("wide") / "run", config(until_width=100))
    assert search.done
    return search


def confirmed(search: Scheduler, budget: int) -> list[TrialRecord]:
    records = sorted(search.budgets[budget].ended, key=lambda record: record.started)
    return [record for record in records if record.spec.stage is Stage.CONFIRM]


def test_only_the_two_smallest_budgets_explore(searched: Scheduler) -> None:
    explored = {r.spec.budget for r in searched.records if r.spec.stage is Stage.EXPLORE}
    assert explored == {20_000, 40_000}


def test_only_the_two_smallest_budgets_try_other_rates(searched: Scheduler) -> None:
    others = {r.spec.budget for r in searched.records if r.spec.rate_scale != 1}
    assert others == {20_000, 40_000}


def test_a_larger_budget_begins_about_where_the_smaller_ones_point(searched: Scheduler) -> None:
    for budget in BUDGETS[2:]:
        shallow, middle, deep = sorted(r.spec.shape.depth for r in confirmed(searched, budget)[:3])
        best = 3 * (budget / 20_000) ** 0.485
        assert best / 1.6 <= middle <= best * 1.6
        assert shallow < middle < deep


def test_a_larger_budget_begins_once_every_smaller_one_has_ended(tmp_path: Path) -> None:
    begun: dict[int, float] = {}
    ended: dict[int, float] = {}
    search = scheduler(config(until_width=100), tmp_path)

    def listen(record: TrialRecord) -> None:
        begun.setdefault(record.spec.budget, len(search.records))
        if record.outcome is Outcome.FINISHED:
            ended[record.spec.budget] = len(search.records)

    search.listeners.append(listen)
    Simulation(search, growing, slots=8).run()

    assert max(ended[20_000], ended[40_000]) <= begun[80_000] <= begun[160_000]
    assert ended[80_000] <= begun[160_000]


def test_trainings_are_bought_until_the_interval_is_as_narrow_as_asked(
    searched: Scheduler, wide: Scheduler
) -> None:
    told, before = read_outlook(searched.folder), read_outlook(wide.folder)

    assert told is not None
    assert told.width is not None
    assert before is not None
    assert before.width is not None
    assert told.width <= 1.8 < before.width
    assert told.is_narrow
    assert not told.offers
    assert len(wide.records) < len(searched.records)
    low, high = told.interval or (0, 0)
    assert low <= 3 * 50**0.485 <= high


def test_a_run_goes_on_where_a_narrower_interval_is_asked_for(
    searched: Scheduler, wide: Scheduler, tmp_path: Path
) -> None:
    copytree(wide.folder.path, tmp_path, dirs_exist_ok=True)

    narrow = run(tmp_path, config())

    assert differences(whole_records(narrow.folder), whole_records(searched.folder)) == []


def test_a_wider_interval_ends_a_run_at_once(searched: Scheduler) -> None:
    again = scheduler(config(until_width=3), searched.folder.path)

    assert again.next_trial() is None
    assert again.done


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(1))
def test_a_search_that_is_killed_again_and_again_comes_to_the_same_records(
    searched: Scheduler, tmp_path: Path, seed: int
) -> None:
    luck = random.Random(seed)
    for _ in range(100):
        search = scheduler(config(), tmp_path)
        workers = Simulation(search, growing, slots=luck.randint(1, 4), seed=luck.randrange(1000))
        workers.evaluations = {name: len(record.curve) for name, record in search.live.items()}
        workers.run(events=luck.randint(5, 120))
        if search.done:
            break

    assert search.done
    assert differences(whole_records(search.folder), whole_records(searched.folder)) == []


@pytest.mark.drill
def test_a_batch_of_several_budgets_is_bought_whole_or_not_at_all(
    wide: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrower = config(until_width=1.5, together=4)

    def killed(path: Path, line: dict[str, Any], **options: bool) -> None:
        append_line(path, line, **options)
        if len(line.get("batches", ())) > 1:
            os.truncate(path, path.stat().st_size - 20)
            raise SearchKilled

    calm, disturbed = (
        copytree(wide.folder.path, tmp_path / name) for name in ("calm", "disturbed")
    )
    with monkeypatch.context() as patch:
        patch.setattr("fathom.search.scheduling.scheduler.append_line", killed)
        with pytest.raises(SearchKilled):
            run(disturbed, narrower)

    found, undisturbed = (whole_records(run(path, narrower).folder) for path in (disturbed, calm))
    assert differences(found, undisturbed) == []
    assert len(found) > len(wide.records)


def test_the_next_trainings_are_those_that_tell_most_by_the_operation(
    wide: Scheduler, tmp_path: Path
) -> None:
    copytree(wide.folder.path, tmp_path, dirs_exist_ok=True)
    again = scheduler(config(until_width=1.05), tmp_path)
    assert again.ladder is not None
    bought = again.ladder.offers()

    values = [each.gain / each.flops for each in bought]
    assert values == sorted(values, reverse=True)
    assert all(each.gain >= 0.01 for each in bought)
    assert {each.budget for each in bought} <= set(BUDGETS)
    done = {(r.spec.shape, r.spec.seed) for r in wide.records if r.outcome is Outcome.FINISHED}
    assert not done & {(each.shape, each.seed) for each in bought}
    spec = again.next_trial()
    assert spec is not None
    assert (spec.budget, spec.shape, spec.seed) == (
        bought[0].budget, bought[0].shape, bought[0].seed,
    )  # fmt: skip


def test_without_an_answer_anywhere_nothing_is_bought_and_the_search_ends(tmp_path: Path) -> None:
    search = scheduler(config(), tmp_path)
    Simulation(search, lambda spec, share: math.nan).run()

    assert search.done
    told = read_outlook(search.folder)
    assert told is not None
    assert (told.depth, told.interval, told.offers) == (None, None, ())


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('"interval": [', '"interval": [-1, '),
        ('"power"', '"\\u001b[31m"'),
        ('"depth": ', '"depths": '),
        ("{", ""),
    ],
)
def test_a_damaged_outlook_is_refused_in_one_line(
    wide: Scheduler, tmp_path: Path, was: str, becomes: str
) -> None:
    copytree(wide.folder.path, tmp_path, dirs_exist_ok=True)
    folder = RunFolder(tmp_path)
    folder.target.write_text(folder.target.read_text().replace(was, becomes, 1))

    with pytest.raises(DamagedFileError, match="delete it: `fathom run` writes it anew") as error:
        read_outlook(folder)
    assert str(error.value).isprintable()
