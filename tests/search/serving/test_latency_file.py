"""The file latency.json: read as it was written, and refused with the remedy if it is damaged."""

from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.inference import cache_bytes, weight_bytes
from fathom.search.run_folder import RunFolder, RunFolderError
from fathom.search.serving.latency_file import latency_json, read_latency, write_latency
from fathom.search.serving.values import Duration, Latency, Request, ShapeTimes
from tests.support.models import SMALL

TIMES = ShapeTimes(
    shape=replace(SMALL, queries_per_key=2), prefill=Duration(0.5, 0.01),
    token=Duration(0.25, 0.02), measured=True,
)  # fmt: skip
LATENCY = Latency(
    budget=1000, request=Request(batch=2, prompt=3, tokens=3), number=4,
    device="a device, 1 thread", times=(TIMES, replace(TIMES, measured=False)), model_error=None,
)  # fmt: skip


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert read_latency(folder) == {}
    write_latency(folder, {}, [LATENCY])
    assert read_latency(folder) == {1000: LATENCY}


def test_a_budget_that_is_not_asked_for_again_keeps_what_it_has(tmp_path: Path) -> None:
    folder, other = RunFolder(tmp_path), replace(LATENCY, budget=3000)
    write_latency(folder, {}, [LATENCY, other])
    again = replace(LATENCY, request=Request(batch=1, prompt=5, tokens=2), model_error=0.125)
    write_latency(folder, read_latency(folder), [again])
    assert read_latency(folder) == {1000: again, 3000: other}


def test_the_file_has_throughput_and_exact_bytes() -> None:
    shape = latency_json(LATENCY)["shapes"][0]
    assert shape["tokens_per_second"] == pytest.approx(2 * 3 / (0.5 + 2 * 0.25))
    assert shape["weight_bytes"] == weight_bytes(TIMES.shape, 4)
    assert shape["cache_bytes"] == cache_bytes(TIMES.shape, sequences=2, tokens=6, number=4)


@pytest.mark.parametrize("text", ["{", "{}", '{"budgets": [{"request": 3}]}', "[]"])
def test_a_damaged_file_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "latency.json").write_text(text)
    with pytest.raises(RunFolderError, match="delete it, and `fathom latency` makes it again"):
        read_latency(RunFolder(tmp_path))
