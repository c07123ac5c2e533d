"""Times of the depths of a budget, as `fathom latency` leaves them in a run folder."""

from dataclasses import replace
from pathlib import Path

from fathom.search.conclusion.conclude import Conclusion
from fathom.search.report.words.latency import BudgetLatency, BudgetLosses, kept_latency
from fathom.search.run_folder import RunFolder
from fathom.search.serving.data_sheet import estimate
from fathom.search.serving.latency_file import write_latency
from fathom.search.serving.values import Latency, Request
from fathom.search.study.hardware.gpus import gpu_named

REQUEST = Request(batch=1, prompt=32, tokens=32)


def latency_of(found: Conclusion, place: int) -> Latency:
    """The times of a budget by a data sheet, the first of them as if it had been measured."""
    optimum = found.optima[place]
    shapes = BudgetLosses(optimum=optimum, posterior=None).shapes
    first, *others = (estimate(shape, REQUEST, gpu_named("H100")) for shape in shapes)
    return Latency(
        budget=optimum.budget, request=REQUEST, number=2, device="a GPU, of which little is known",
        times=(replace(first, measured=True), *others), model_error=0.05,
    )  # fmt: skip


def kept(found: Conclusion, folder: Path, *latencies: Latency) -> list[BudgetLatency]:
    write_latency(RunFolder(folder), {}, latencies)
    return kept_latency(found, RunFolder(folder))
