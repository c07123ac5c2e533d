"""Every number of a report comes from the records: it goes with them, and with no others."""

import csv
import re
import shutil
from collections import Counter
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path

import pytest

from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.records import Outcome
from fathom.search.report.pages.data import save_tables, tables
from tests.support.reporting import (
    BUDGETS,
    CONFIG,
    Optima,
    Records,
    of_budget,
    publish,
    rows,
    visible,
)


@pytest.fixture(scope="module")
def without_one(study: Records, run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run, reported again after the middle budget's records were deleted."""
    folder = tmp_path_factory.mktemp("fewer")
    shutil.copytree(run_folder, folder, dirs_exist_ok=True)
    (folder / "figures" / "mine.txt").write_text("kept")
    publish(folder, [record for record in study if record.spec.budget != BUDGETS[1]])
    return folder


def cells(page: str) -> list[dict[str, str]]:
    """The table of optima as it is shown, heading to text."""
    table = page.split('id="table"', 1)[1].split("</section>", 1)[0]
    return [
        {
            unescape(head): unescape(re.sub(r"<[^>]*>", "", cell))
            for head, cell in re.findall(r'<td data-head="(.*?)">(.*?)</td>', row)
        }
        for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]
    ]


def test_every_number_of_the_table_can_be_traced_to_the_records(page: str, study: Records) -> None:
    for shown, budget in zip(cells(page), BUDGETS, strict=True):
        of_these = of_budget(study, budget)
        outcomes = Counter(record.outcome for record in of_these)
        [optimum] = find_optima(of_these, seed=0)

        numbers = [f"{outcomes[o]} {o.replace('_', ' ')}" for o in Outcome if outcomes[o]]
        assert shown["trials"] == ", ".join(numbers)
        assert shown["tokens"] == f"{20 * budget / 1e6:g}M"
        assert shown["depth"] == str(optimum.optimal_depth)
        assert shown["loss (nats)"] == f"{optimum.loss:.4f}"
        assert any(
            shown["best trained shape"]
            == f"depth {shape.depth}, d_model {shape.d_model:,}, ff_ratio"
            f" {shape.d_ff / shape.d_model:.2f}, {shape.n_heads} heads"
            and shown["its parameters, total"] == f"{shape.params_total:,}"
            and shown["its non-embedding"] == f"{shape.params_non_embedding:,}"
            for shape in (record.spec.shape for record in of_these)
        ), "the shape is one that was trained"


def test_the_tables_hold_an_optimum_with_its_units(run_folder: Path, optima: Optima) -> None:
    for row, optimum in zip(rows(run_folder, "optima"), optima, strict=True):
        assert float(row["curve_minimum_interval_low"]) == optimum.curve_minimum_interval[0]
        assert float(row["noise_nats"]) == optimum.noise
        for name in (
            *("curve_minimum", "family_disagreement", "share_without_minimum", "params_slope"),
            "best_ff_ratio",
        ):
            assert float(row[name]) == getattr(optimum, name)
        assert int(row["shallowest_depth"]) == not_ruled_out(optimum)[0]
    fits = rows(run_folder, "fits")
    assert {
        row["coefficient"]: float(row["value"])
        for row in fits
        if row["budget"] == str(BUDGETS[0]) and row["formula"].startswith("a z^-p")
    } == asdict(optima[0].curves.power)


def test_the_tables_hold_every_trial_and_every_evaluation(run_folder: Path, study: Records) -> None:
    trials, curves = rows(run_folder, "trials"), rows(run_folder, "curves")

    assert [row["trial"] for row in trials] == [record.spec.trial for record in study]
    assert len(curves) == sum(len(record.curve) for record in study)
    for row, record in zip(trials, study, strict=True):
        assert row["loss_nats"] == ("" if record.loss is None else str(record.loss))
        assert row["outcome"] == record.outcome
        assert int(row["params_total"]) == record.spec.shape.params_total
    assert [int(row["budget"]) for row in rows(run_folder, "optima")] == list(BUDGETS)


def test_the_last_metrics_of_trials_are_a_table(study: Records, tmp_path: Path) -> None:
    first, *others = study
    *before, last = first.curve
    last = replace(last, metrics={"exact_match/gen/all": 0.25, "exact_match/gen/case": 0.5})

    records = [replace(first, curve=(*before, last)), *others]
    save_tables(tmp_path, tables(Conclusion(config=CONFIG, records=tuple(records))))

    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        told = [row for row in csv.DictReader(file) if row["trial"] == first.spec.trial]
    assert [(row["metric"], float(row["value"])) for row in told] == [*last.metrics.items()]
    assert {int(row["depth"]) for row in told} == {first.spec.shape.depth}


def test_a_name_that_a_spreadsheet_would_compute_is_a_text(study: Records, tmp_path: Path) -> None:
    first, *_ = study
    *before, last = first.curve
    names = ("=1+1", "+1", "-1", "@SUM(A1)", "exact_match")
    last = replace(last, metrics=dict.fromkeys(names, -0.5))
    record = replace(first, curve=(*before, last))
    save_tables(tmp_path, tables(Conclusion(config=CONFIG, records=(record,))))
    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        told = [row for row in csv.DictReader(file) if row["trial"] == first.spec.trial]
    assert [row["metric"] for row in told] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "exact_match"]
    assert {row["value"] for row in told} == {"-0.5"}, "numbers are numbers"


def test_deleting_records_removes_their_budget_and_no_other(
    run_folder: Path, without_one: Path
) -> None:
    pages = (run_folder / "report.html", without_one / "report.html")
    before, after = (page.read_text(encoding="utf-8") for page in pages)

    assert "1M parameters" not in visible(after)
    assert of_its_own(after) == of_its_own(before) - {"1000000"}
    for budget in (BUDGETS[0], BUDGETS[2]):
        assert section(after, budget) == section(before, budget)
    whole, fewer = drawn(before), drawn(after)
    gone = {key for key in whole if key.endswith("-1000000")}
    assert len(gone) == 4
    assert fewer.keys() == whole.keys() - gone
    for key in fewer.keys() - {"depth-against-budget", "sounding"}:
        assert fewer[key] == whole[key], f"{key} speaks of its own budget alone"
        for kind in ("png", "svg"):
            same = (without_one / "figures" / f"{key}.{kind}").read_bytes()
            assert same == (run_folder / "figures" / f"{key}.{kind}").read_bytes()
    kept = {path.stem for path in (without_one / "figures").glob("*.png")}
    assert kept == fewer.keys() | {"answer"}, "the budget's own figures are gone"
    assert (without_one / "figures" / "mine.txt").exists(), "only its own kinds of file are its own"


@pytest.mark.parametrize("table", ["trials", "curves", "optima", "depths", "fits", "rungs"])
def test_deleting_a_budgets_records_removes_its_rows_and_no_others(
    table: str, study: Records, run_folder: Path, without_one: Path
) -> None:
    trials = {record.spec.trial for record in study if record.spec.budget != BUDGETS[1]}

    def remains(row: dict[str, str]) -> bool:
        return row["trial"] in trials if "trial" in row else row["budget"] != str(BUDGETS[1])

    left = rows(without_one, table)
    assert left == [row for row in rows(run_folder, table) if remains(row)]
    assert left


def of_its_own(page: str) -> set[str]:
    """The budgets that have a section."""
    return set(re.findall(r'<details class="budget" id="budget-(\d+)"', page))


def section(page: str, budget: int) -> str:
    """All that the page says of one budget: its answer, its row of the table and its section,
    without multiples of compute, which the budgets tell together."""
    section = page.split(f'id="budget-{budget}"')[1].split('<details class="budget"')[0]
    section = section.split("</section>")[0]
    section = re.sub(
        '<td data-head="times the compute">.*?</td>|<th scope="col">times the compute</th>|'
        '<p class="note">Times the compute.*?</p>\n',
        "", section,
    )  # fmt: skip
    name = {300_000: "300k", 3_000_000: "3M"}[budget]
    [said] = re.findall(
        rf'<article class="card">\n<p class="question">{name} .*?</div>', page, re.S
    )
    [row] = re.findall(rf'<tr><td data-head="budget"><span>{name} .*?</tr>', page)
    limits = re.findall(rf"<li>{name}: .*?</li>", page)
    assert limits
    return "".join([section, said, row, *limits])


def drawn(page: str) -> dict[str, str]:
    """The figures of a page by their names."""
    return dict(re.findall(r'<figure id="([^"]*)"(.*?)</figure>', page, re.DOTALL))
