"""`fathom latency` on a simulated run: what it prints, writes and refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.search.json_lines import append_line
from fathom.search.record_json import to_json
from fathom.search.run_folder import read_records
from tests.support.command_line import assert_refused, here
from tests.support.contract import valid
from tests.support.simulated import simulated_study

STUDY = """
study: simulated
objective: {name: language, corpus: ., context: 256}
budgets: [300k, 1M]
"""


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records here are of a planted world, and the study file beside them is none of theirs."""
    monkeypatch.setattr(
        "fathom.search.study.own_records.read_records",
        lambda folder, _: read_records(folder.records),
    )


def kept(run: Path) -> dict[int, Any]:
    """Budget -> its entry in the file that the command writes."""
    entries = json.loads((run / "latency.json").read_text())["budgets"]
    return {entry["budget"]: entry for entry in entries}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "simulated"
    folder.mkdir()
    (folder / "config.yaml").write_text(STUDY)
    for record in simulated_study(budgets=(300_000, 1_000_000)):
        append_line(folder / "records.jsonl", to_json(record))
    return folder


def test_a_data_sheet_gives_every_depth_and_says_that_nothing_is_measured(run: Path) -> None:
    shown = here("latency", run, "--gpu", "H100", "--params", "1M", "--max-token-ms", "7")
    assert shown.returncode == 0, shown.stderr
    assert "estimate from the data sheet of H100, nothing is measured" in shown.stdout
    assert "over a limit" in shown.stdout
    entries = kept(run)
    assert not any(shape["measured"] for shape in entries[1_000_000]["shapes"])


def test_a_later_command_replaces_the_budgets_that_it_asks_for_and_no_others(run: Path) -> None:
    asked = ("latency", run, "--gpu", "H100")
    assert here(*asked).returncode == 0
    assert here(*asked, "--params", "1M", "--batch", "4").returncode == 0
    batches = {budget: entry["request"]["batch"] for budget, entry in kept(run).items()}
    assert batches == {300_000: 1, 1_000_000: 4}


def test_a_time_within_its_error_of_the_limit_is_told_from_one_that_is_over(run: Path) -> None:
    assert here("latency", run, "--gpu", "H100", "--params", "1M").returncode == 0
    times = {s["shape"]["depth"]: s["token"]["seconds"] for s in kept(run)[1_000_000]["shapes"]}
    depth = sorted(times)[1]
    limit = 1000 * times[depth]
    shown = here("latency", run, "--gpu", "H100", "--params", "1M", "--max-token-ms", limit)
    assert "perhaps over a limit" in shown.stdout
    assert "over a limit" in shown.stdout.replace("perhaps over a limit", "")
    assert "may or may not exceed a limit" in " ".join(shown.stdout.split())


def test_here_it_measures_and_names_a_choice(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.search.serving.measure.SECONDS", 0.0)
    done = here("latency", run, "--params", "300k", "--prompt", "4", "--tokens", "3", "--json")
    assert done.returncode == 0, done.stderr
    [entry] = valid(json.loads(done.stdout))["latency"]
    assert all(shape["token"]["seconds"] > 0 for shape in entry["shapes"])
    assert entry["choice"]["best"] in [shape["depth"] for shape in entry["shapes"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--prompt", "9000", "--tokens", "10"), ("together, got --prompt 9000 and --tokens 10;",)),
        (("--params", "2M"), ("budget 2M has no trial", "300k, 1M")),
        (("--gpu", "H1000"), ("`--gpu` must be one of", "H1000")),
        (("--batch", "0"), ("greater than or equal to 1",)),
    ],
)
def test_what_can_not_be_timed_is_refused_in_a_line(
    run: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(here("latency", run, *options), *words)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("model: {bidirectional: true}", "model.bidirectional"),
        ("space: {split: 1-1}", "space.split"),
    ],
)
def test_a_study_whose_models_do_not_decode_is_refused(
    run: Path, tmp_path: Path, line: str, key: str
) -> None:
    (tmp_path / "config.yaml").write_text(f"{STUDY}{line}\n")
    assert_refused(here("latency", tmp_path), key)


@pytest.mark.parametrize(
    ("kind", "layer"),
    [("experts", Experts(number=4, top_k=2)), ("state_space", StateSpace())],
)
def test_other_kinds_of_layers_are_measured_and_have_no_data_sheet(
    tmp_path: Path, kind: str, layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fathom.search.serving.measure.SECONDS", 0.0)
    (tmp_path / "config.yaml").write_text(f"{STUDY}model: {{{kind}: {{}}}}\n")
    for record in simulated_study(budgets=(300_000,)):
        shape = replace(record.spec.shape, **{kind: layer})
        of_kind = replace(record, spec=replace(record.spec, shape=shape))
        append_line(tmp_path / "records.jsonl", to_json(of_kind))
    asked = ("latency", tmp_path, "--prompt", "4", "--tokens", "3")
    assert_refused(here(*asked, "--gpu", "H100"), f"`model.{kind}`", "leave `--gpu` out")
    done = here(*asked)
    assert done.returncode == 0, done.stderr
    assert all(shape["measured"] for shape in kept(tmp_path)[300_000]["shapes"][:1])


def test_a_damaged_file_of_earlier_times_is_refused_before_anything_is_timed(run: Path) -> None:
    file = run / "latency.json"
    file.write_text("{")
    assert_refused(here("latency", run, "--gpu", "H100"), "latency.json", "delete it")
    assert file.read_text() == "{"
    file.unlink()
