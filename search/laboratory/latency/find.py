"""Finds the inference times of the best shape of each depth: measured, or by a data sheet."""

from collections.abc import Callable, Sequence

import torch

from fathom.models.parametrization import Parametrization
from fathom.search.analysis.answer.finding import find_with_posterior
from fathom.search.formatting import format_count
from fathom.search.records import TrialRecord, by_budget
from fathom.search.report.words.latency import BudgetLosses
from fathom.search.serving.data_sheet import NUMBER, estimate
from fathom.search.serving.measure import Bench, measure
from fathom.search.serving.time_model import spread, with_modelled
from fathom.search.serving.values import Latency, Request
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.hardware.gpus import GpuType, gpu_named
from fathom.search.study.hardware.machine import processor
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.free_size import check_one_size
from fathom.search.study.keys.groups import ResourcesConfig
from fathom.search.training.device import local_device

MOST_MEASURED = 8
"""Most shapes of a budget that are measured; the times of the others are interpolated."""


def losses_of(
    records: Sequence[TrialRecord], budget: int | None, *, seed: int
) -> list[BudgetLosses]:
    """Returns the losses of each budget with a finished trial, or of the one that is asked for.

    Raises:
        ConfigError: if there is none.
    """
    found = [
        BudgetLosses(optimum=optimum, posterior=posterior)
        for trials in by_budget(records).values()
        for optimum, posterior in [find_with_posterior(trials, seed=seed)]
        if optimum.depths
    ]
    asked = [each for each in found if budget in (None, each.optimum.budget)]
    if not asked:
        labels = ", ".join(format_count(each.optimum.budget) for each in found)
        known = f"choose one of {labels}" if found else "run `fathom run` first"
        which = "run" if budget is None else f"budget {format_count(budget)}"
        raise ConfigError(f"the {which} has no trial that finished; {known}")
    return asked


def check_decodes(config: StudyConfig, gpu: str | None) -> None:
    """Checks that the study's models are decoders that Fathom builds, and that their times can be
    estimated if a type `gpu` is named.

    Raises:
        ConfigError: if a check fails, or a budget's models differ in size.
    """
    check_one_size(config.count, "fathom latency")
    if key := config.not_decoded:
        raise ConfigError(
            "`fathom latency` needs Fathom's own decoder, which adds a token at a time, but "
            f"the study has `{key}`; time this model where it is served"
        )
    kinds = {"model.experts": config.model.experts, "model.state_space": config.model.state_space}
    if gpu and (kind := next((key for key, is_set in kinds.items() if is_set), "")):
        raise ConfigError(
            f"`--gpu {gpu}` estimates dense layers with attention, but the study has `{kind}`; "
            "leave `--gpu` out to measure them here"
        )


def request_of(context: int, batch: int, prompt: int | None, tokens: int | None) -> Request:
    """Returns the request; a length that is None fills the study's context, and both None fill half
    each.

    Raises:
        ConfigError: if prompt and answer do not fit the context.
    """
    options = (("--prompt", prompt), ("--tokens", tokens))
    given = [f"{option} {number}" for option, number in options if number is not None]
    if prompt is None:
        prompt = context // 2 if tokens is None else context - tokens
    if tokens is None:
        tokens = context - prompt
    if prompt < 1 or tokens < 2 or prompt + tokens > context:
        raise ConfigError(
            "`--prompt` (at least 1) and `--tokens` (at least 2) must fit the study's context of "
            f"{context} together, got {' and '.join(given) or 'neither'}; lower one of them"
        )
    return Request(batch=batch, prompt=prompt, tokens=tokens)


def find_latency(
    budgets: Sequence[BudgetLosses], config: StudyConfig, request: Request, gpu: str | None,
    say: Callable[[str], None],
) -> list[Latency]:  # fmt: skip
    """Returns the times of every shape of each budget, estimated for the type `gpu` if one is
    named."""
    if gpu is not None:
        named = gpu_named(gpu)
        return [_estimated(each, request, named) for each in budgets]
    place, found = here(config.resources), []
    parametrization = config.model.parametrization.build()
    for each in budgets:
        say(f"measuring {format_count(each.optimum.budget)}")
        found.append(_measured(each, parametrization, request, place))
    return found


def here(resources: ResourcesConfig) -> Bench:
    """Returns the place where models of a study are timed: a GPU in bfloat16, or the processor with
    the threads of a trial."""
    device = local_device(resources)
    half = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = torch.bfloat16 if half else torch.float32
    return Bench(device=device, dtype=dtype, threads=resources.threads)


def device_text(place: Bench) -> str:
    """Returns where times are measured, in words."""
    numbers = str(place.dtype).removeprefix("torch.")
    if place.device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, {numbers}"
    threads = "1 thread" if place.threads == 1 else f"{place.threads} threads"
    clock = ", the thread's own time" if place.counts_own_time else ""
    return f"{processor()}, {threads}, {numbers}{clock}"


def _estimated(losses: BudgetLosses, request: Request, gpu: GpuType) -> Latency:
    return Latency(
        budget=losses.optimum.budget,
        request=request,
        number=NUMBER,
        device=f"estimate from the data sheet of {gpu.name}, nothing is measured",
        times=tuple(estimate(shape, request, gpu) for shape in losses.shapes),
        model_error=None,
    )


def _measured(
    losses: BudgetLosses, parametrization: Parametrization, request: Request, place: Bench
) -> Latency:
    shapes = losses.shapes
    chosen = set(spread(len(shapes), MOST_MEASURED).tolist())
    timed = [shape for index, shape in enumerate(shapes) if index in chosen]
    others = [shape for index, shape in enumerate(shapes) if index not in chosen]
    times, worst = with_modelled(measure(timed, parametrization, request, place), others)
    return Latency(
        budget=losses.optimum.budget,
        request=request,
        number=place.dtype.itemsize,
        device=device_text(place),
        times=times,
        model_error=worst,
    )
