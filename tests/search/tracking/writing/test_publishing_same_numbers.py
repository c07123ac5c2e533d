"""Every number of an answer is the same in the report, card, terminal, status, MLflow, best.yaml,
CSV and JSON."""

import gzip
import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from fathom.search.commands.run_status import print_status, status_of, status_reply
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.contract.studies import study_reply
from fathom.search.formatting import format_count, ranges
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.scheduling.journal import read_run
from fathom.search.study.runs import one_run
from fathom.search.tracking.writing.publishing import RunResult, publish
from fathom.search.tracking.writing.views import NODE_TAG
from tests.support.contract import printed_values
from tests.support.dry_run import KINDS, search_of_kind
from tests.support.reporting import printed, rows, visible
from tests.support.tracked import Place, new_place

PRICE = re.compile(r"(?<!= )[+-]\d+\.\d{4}(?!\d)")
"""A price in nats, or an end of its interval, as people read it."""
NOTHING = "\u2013"
"""What the page shows for a cell without a text."""
Facts = dict[str, Any]
"""Name of a fact of a budget -> its value."""


@dataclass(frozen=True)
class Told:
    """What a run says of itself: its folder, its reply to programs, and its store."""

    place: Place
    conclusion: Conclusion
    answers: dict[int, Any]
    """Budget -> its answer, of `--json`."""

    @property
    def page(self) -> str:
        return self._file("report.html")

    @property
    def card(self) -> str:
        return self._file("card.md")

    @property
    def terminal(self) -> str:
        return printed(partial(print_answers, self.conclusion))

    def _file(self, name: str) -> str:
        return (self.place.folder / name).read_text(encoding="utf-8")

    def runs(self, node: str) -> list[Run]:
        """The runs of MLflow whose node begins so."""
        runs = self.place.runs(self.conclusion.title)
        return [run for run in runs if run.data.tags[NODE_TAG].startswith(node)]


PICTURES = ("writer.save_static", "writer.save_picture", "card.save_picture")
"""What draws the pictures of a report: these take long, and have no numbers of their own."""


@pytest.fixture(scope="module", params=KINDS)
def told(
    request: pytest.FixtureRequest, template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Told:
    """A run of each kind; its store is made from its files, as after the first was lost."""
    place = new_place(template, tmp_path_factory.mktemp("told"))
    search = search_of_kind(request.param, place.folder)
    folder, config = search.folder, search.config
    conclusion = conclude_run(folder, config, read_run(folder, config))
    with pytest.MonkeyPatch.context() as patch:
        for name in PICTURES:
            patch.setattr(f"fathom.search.report.pages.{name}", lambda *_, **__: None)
        publish(folder, conclusion, None)
    store = Place(place.uri, folder.path)
    assert store.mirror(conclusion, study=config.study) == 0
    reply = printed_values(study_reply("report", [RunResult(folder, conclusion)]))
    ended = {a["question"]["budget"]: a for a in reply["answers"] if a["evidence"]}
    return Told(store, conclusion, ended)


def test_no_number_of_an_answer_contradicts_another(told: Told) -> None:
    for budget, answer in told.answers.items():
        expected = facts_of_json(answer)
        for place, facts in facts_elsewhere(told, budget):
            wrong = {
                name: (value, expected[name])
                for name, value in facts.items()
                if not same(value, expected[name])
            }
            assert not wrong, (place, budget, wrong)


def test_every_price_that_is_shown_is_one_of_the_answers(told: Told) -> None:
    costs = [cost for answer in told.answers.values() for cost in answer["costs"]]
    known = {f"{nats:+.4f}" for c in costs for nats in (c["nats"], *c["nats_interval"])}
    measured = re.sub(r'<section id="at-any-size".*?</section>', "", told.page, flags=re.S)
    shown = {
        "page": visible(measured),
        "card": told.card,
        "terminal": told.terminal,
        "MLflow": " ".join(run.data.tags["mlflow.note.content"] for run in told.runs("budget/")),
        "charts": " ".join(drawn(told.page)["texts"]),
    }  # fmt: skip
    found = {place: set(PRICE.findall(text)) for place, text in shown.items()}
    assert not {place: odd for place, prices in found.items() if (odd := prices - known)}
    if any(answer["verdict"]["settled"] for answer in told.answers.values()):
        assert all(found.values()), "every place has a price"


def same(value: Any, expected: Any) -> bool:
    """True if a value is the expected one, as exactly as its place shows it."""
    if isinstance(value, str) and isinstance(expected, float):
        digits = len(value.partition(".")[2])
        return float(value) == float(f"{expected:.{digits}f}")
    if isinstance(expected, float) and value is not None:
        return float(value) == pytest.approx(expected, rel=1e-5)
    if isinstance(expected, dict):
        return value.keys() <= expected.keys() and all(
            same(each, expected[key]) for key, each in value.items()
        )
    return bool(value == expected)


def facts_of_json(answer: Any) -> Facts:
    found, evidence = answer["answer"] or {}, answer["evidence"]
    costs = {cost["depth"]: cost["nats"] for cost in answer["costs"]}
    depth, loss = found.get("depth"), found.get("loss")
    losses = {d: loss + nats for d, nats in costs.items()}
    if not costs:  # with fewer than three depths a loss is the mean of a depth
        losses = {each["depth"]: each["loss"] for each in evidence["depths"]}
    return {
        "depth": depth,
        "interval": tuple(found.get("interval") or ()) or None,
        "not ruled out": ranges(found.get("not_ruled_out", ())),
        "verdict": answer["verdict"]["kind"],
        "reason": answer["verdict"]["reason"],
        "loss": loss,
        "chance": found.get("chance_of_cost"),
        "probabilities": ", ".join(
            f"{each['depth']}: {100 * each['probability']:.0f} %"
            for each in found.get("probabilities", ())
        ),
        "prices": costs,
        "losses": losses | ({depth: loss} if depth else {}),
        "trials": {name: number for name, number in evidence["trials"].items() if number},
        "tokens": answer["question"]["horizon"]["amount"],
    }


def facts_elsewhere(told: Told, budget: int) -> Iterator[tuple[str, Facts]]:
    """Yields place and facts of a budget, for every place that has some."""
    yield from csv_facts(told.place.folder, budget)
    yield "best.yaml", yaml_facts(told.place.folder / "best.yaml", budget)
    yield from mlflow_facts(told, budget)
    size = format_count(budget)
    [row] = [row for row in page_rows(told.page, "table") if row["budget"].startswith(f"{size} ")]
    yield "page", text_facts(row)
    depths = page_rows(told.page, f"budget-{budget}")
    yield (
        "page, every depth",
        {
            "losses": {int(r["depth"]): r["loss (nats)"] for r in depths if r.get("loss (nats)")},
            "prices": {
                int(row["depth"]): cost.split()[0]
                for row in depths
                if (cost := row.get("instead of the best (nats)"))
            },
        },
    )
    yield "card", text_facts(markdown_row(told.card, size))
    yield "terminal", terminal_facts(told.terminal, size)
    state = status_of(one_run(told.place.folder))
    replies = printed_values(status_reply([state]))["answers"]
    [now] = [reply for reply in replies if reply["question"]["budget"] == budget]
    depth = (now["answer"] or {}).get("depth")
    yield "status --json", {"depth": depth, "verdict": now["verdict"]["kind"]}
    [line] = re.findall(rf"^ *{size} .*$", printed(partial(print_status, state)), re.M)
    yield "status", {"depth": int(line.split()[-2].replace("-", "") or 0) or None}


def csv_facts(folder: Path, budget: int) -> Iterator[tuple[str, Facts]]:
    [row] = [row for row in rows(folder, "optima") if row["budget"] == str(budget)]
    ends = row["interval_low"], row["interval_high"]
    outcomes = ("finished", "stopped", "diverged", "failed")
    yield (
        "optima.csv",
        {
            "depth": int(row["optimal_depth"]) if row["optimal_depth"] else None,
            "interval": tuple(map(int, ends)) if all(ends) else None,
            "not ruled out": ranges(list(map(int, row["plateau"].split()))),
            "verdict": row["verdict"],
            "reason": row["reason"],
            "loss": float(row["loss_nats"]) if row["loss_nats"] else None,
            "chance": float(row["chance_of_cost"]) if row["chance_of_cost"] else None,
            "probabilities": row["probabilities"],
            "trials": {name: n for name in outcomes if (n := int(row[f"trials_{name}"]))},
            "tokens": int(row["tokens"]),
        },
    )
    known = (folder / "tables" / "depths.csv").exists()
    depths = [r for r in (rows(folder, "depths") if known else ()) if r["budget"] == str(budget)]
    yield (
        "depths.csv",
        {
            name: {int(r["depth"]): float(r[column]) for r in depths if r[column]}
            for name, column in (("prices", "cost_nats"), ("losses", "expected_loss_nats"))
        },
    )
    ended = Counter(r["outcome"] for r in rows(folder, "trials") if r["budget"] == str(budget))
    yield "trials.csv", {"trials": dict(ended)}


def yaml_facts(path: Path, budget: int) -> Facts:
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))["best"]
    found = [entry for entry in entries if entry["budget"] == budget]
    if not found:
        return {"depth": None}
    [entry] = found
    return {
        "depth": entry["optimal_depth"],
        "interval": tuple(entry["interval"] or ()) or None,
        "not ruled out": ranges(entry["plateau"]),
        "prices": {r["depth"]: f"{r['nats']:.6f}" for r in entry["other_depths"] if "nats" in r},
        "tokens": entry["tokens"],
        **{name: entry[name] for name in ("verdict", "reason", "loss")},
    }


def mlflow_facts(told: Told, budget: int) -> Iterator[tuple[str, Facts]]:
    [run], [study] = told.runs(f"budget/{budget}"), told.runs("study")
    tags, metrics = run.data.tags, run.data.metrics
    ends = metrics.get("interval_low"), metrics.get("interval_high")
    yield (
        "tags",
        {
            "depth": int(tags["best_depth"]) if tags["best_depth"] else None,
            "not ruled out": tags["plateau"],
            **{name: tags[name] for name in ("verdict", "reason", "probabilities")},
        },
    )
    yield (
        "metrics",
        {
            "depth": metrics.get("optimal_depth"),
            "interval": ends if None not in ends else None,
            "loss": metrics.get("loss"),
            "chance": metrics.get("chance_of_cost"),
            "trials": {
                name.removeprefix("trials_"): number
                for name, number in metrics.items()
                if name.startswith("trials_") and number
            },
        },
    )
    named = re.search(r"→ depth (\d+)", run.info.run_name)
    expected = told.answers[budget]
    assert bool(named) is expected["verdict"]["settled"], run.info.run_name
    yield "name of the run", {"depth": int(named[1])} if named else {}
    shown = re.findall(r"^\| (\d+) \|.*\| ([+-][\d.]+) \[", tags["mlflow.note.content"], re.M)
    yield "description", {"prices": {int(depth): price for depth, price in shown}}
    ended = Counter(
        trial.data.tags["outcome"]
        for trial in told.runs("trial/")
        if trial.data.tags["budget"] == format_count(budget)
    )
    ended.pop("interrupted", None)
    yield "runs of trials", {"trials": dict(ended)}
    client, steps = MlflowClient(told.place.uri), dict[str, float | None]()
    for name, metric in (("depth", "optimal_depth"), ("loss", "loss")):
        history = client.get_metric_history(study.info.run_id, metric)
        steps[name] = next((point.value for point in history if point.step == budget), None)
    yield "metrics of the study", steps
    kept = client.download_artifacts(study.info.run_id, "optima.md")
    table = Path(kept).read_text(encoding="utf-8")
    yield "artifact", text_facts(markdown_row(table, format_count(budget)))
    best = Path(client.download_artifacts(study.info.run_id, "best.yaml"))
    yield "artifact, best.yaml", yaml_facts(best, budget)


def text_facts(row: dict[str, str]) -> Facts:
    """The facts of a row of the table of answers, as people read it."""
    shown = {name: text if text != "-" else "" for name, text in row.items()}
    facts: Facts = {
        "depth": int(shown["depth"]) if shown.get("depth") else None,
        "not ruled out": shown.get("not ruled out", ""),
        "verdict": shown["verdict"],
        "loss": shown.get("loss (nats)") or None,
    }
    if "trials" in shown:
        counts = (part.split(maxsplit=1) for part in shown["trials"].split(", "))
        facts["trials"] = {name: int(number) for number, name in counts}
    return facts


def terminal_facts(text: str, size: str) -> Facts:
    """The facts of a budget on the terminal: its row, and the line of its reason."""
    heads = ("budget", "tokens", "depth", "95 %", "not ruled out", "loss", "verdict")
    [line] = re.findall(rf"^ *{size} .*$", text, re.M)
    cells = dict(zip(heads, re.split(r"  +", line.strip()), strict=False))
    said = re.search(rf"^{size}: .*\(probability to be the best: depth (.*)\)$", text, re.M)
    facts = text_facts(cells | {"loss (nats)": cells["loss"]})
    return facts | ({"probabilities": said[1]} if said else {})


def page_rows(page: str, section: str) -> list[dict[str, str]]:
    """The rows of the first table of a section, heading -> text."""
    table = page.split(f'id="{section}"', 1)[1].split("</table>", 1)[0]
    return [
        {
            unescape(head): unescape(re.sub(r"<[^>]*>", "", cell)).removeprefix(NOTHING)
            for head, cell in re.findall(r'<td data-head="(.*?)">(.*?)</td>', row)
        }
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)[1:]
    ]


def markdown_row(text: str, size: str) -> dict[str, str]:
    """The row of a budget in a Markdown table, heading -> text."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    [row] = [line for line in lines if line[0] == size]
    return dict(zip(lines[0], row, strict=True))


def drawn(page: str) -> Any:
    """What the page's script says of its charts."""
    [data] = re.findall(r'<script type="text/plain" id="data">(.*?)</script>', page)
    return json.loads(gzip.decompress(b64decode(data)))
