"""`fathom train`: trains one exported shape, without Ray; the same command resumes the training."""

import glob
import math
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from fathom.models.group_penalty import BY_LAYER
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective, data_digest_of
from fathom.objectives.keys import ObjectiveConfig
from fathom.objectives.prepare import prepare
from fathom.objectives.text.corpus import CORPORA
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.search.cluster.interrupt import Interrupt
from fathom.search.export.best import BestShape, of_one_size
from fathom.search.formatting import format_seconds
from fathom.search.records import CurvePoint, Outcome, Report
from fathom.search.run_folder import ENDING, write_atomically
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.options import count_of
from fathom.search.study.file.study_file import changed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.spending import AMOUNTS
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.training.assignment import Assignment, best_assignment
from fathom.search.training.command.trial import CommandTrial, folder_of
from fathom.search.training.device import local_device
from fathom.search.training.saving.weights_folder import CHECKPOINT, WEIGHTS, Note, claim
from fathom.search.training.trial import RunningTrial

MESSAGE = "Ending: the training saves where it stands; Ctrl-C again ends at once"


def train_best(
    chosen: BestShape,
    *,
    tokens: str | None,
    corpus: str | None = None,
    out: Path,
    cache: Path | None = None,
    say: Callable[[str], None],
) -> Path:
    """Trains the shape and passes a line for each evaluation to `say`.

    Returns the file of the trained weights or, for a study with a command, the folder of the
    command's checkpoints. `cache` is the folder of texts that were tokenized before.

    Ctrl-C, SIGTERM or SIGHUP saves the training after the current step. A second Ctrl-C ends it at
    once; what was trained since the last evaluation is then lost. The same call resumes the
    training.

    Raises:
        KeyboardInterrupt: once an interrupted training is saved.
        OSError: when the disk is full.
        ConfigError: when `tokens` is no number, `corpus` does not suit the shape, the folder is
            another training's, or the training diverges.
    """
    if tokens is not None and chosen.config.count.frees_size:
        chosen = of_one_size(chosen.config, chosen.shape, count_of("--tokens", tokens))
    config = _for_one_training(chosen.config, tokens, corpus)
    whole = next(size for size in expand_budgets(config) if size.params == chosen.budget)
    budget = whole.of_shape(chosen.shape)
    assignment = best_assignment(config, budget, chosen.shape, checkpoint=str(out / CHECKPOINT))
    if config.train.command:
        claim(out, Note(chosen.budget, chosen.shape, config))
        return _train_by_command(assignment, say)
    _check_corpus(config.objective)
    objective = prepare(config.objective, cache)
    _check_vocabulary(objective, config, chosen)
    claim(out, Note(chosen.budget, chosen.shape, config, data_digest_of(objective)))
    device = local_device(config.resources)
    # As in the search: on a busy machine a small model is many times slower with more threads.
    torch.set_num_threads(config.resources.threads)
    on = "a GPU" if device.type == "cuda" else f"the CPU, threads: {config.resources.threads}"
    say(f"{_sizes(chosen.shape)}: {budget.tokens:,} tokens on {on}")
    trial = RunningTrial(assignment, objective.to(device), device)
    for report in _said(trial, assignment, say):
        if report.outcome is Outcome.DIVERGED:
            raise ConfigError(f"the training diverged: {report.reason}; lower `learning_rate`")
        if not report.saved:
            trial.save()
    trial.save_weights(out / WEIGHTS)
    for name, content in trial.files().items():
        write_atomically(out / name, content)
    end = _end(report.points[-1], report.reason)
    for line in (end, f"weights in {out / WEIGHTS}"):
        say(line)
    return out / WEIGHTS


def _train_by_command(assignment: Assignment, say: Callable[[str], None]) -> Path:
    """Runs the study's own command for a shape; the command keeps its checkpoints in a folder."""
    config, folder = assignment.config, folder_of(Path(assignment.checkpoint))
    trial = CommandTrial(
        assignment, gpus=int(config.resources.gpus_per_trial != 0), chance_loss=math.inf
    )
    say(shlex.join(trial.command()))
    for report in _said(trial, assignment, say):
        if report.outcome not in (None, Outcome.FINISHED):
            raise ConfigError(f"the training {report.outcome}: {report.reason}")
    say(f"checkpoints of the command in {folder}")
    return folder


def _said(
    trial: RunningTrial | CommandTrial, assignment: Assignment, say: Callable[[str], None]
) -> Iterator[Report]:
    """Yields the reports of a training and passes a line for each evaluation to `say`; ends once an
    interrupted training is saved.

    Raises:
        KeyboardInterrupt: once an interrupted training is saved.
    """
    interrupt, said = Interrupt(), 0
    ending = Path(assignment.checkpoint).with_name(ENDING)
    ending.unlink(missing_ok=True)  # of a training that was killed while it ended
    with interrupt.on_signals(ending, say, MESSAGE):
        for report in trial.reports():
            yield report
            for point in report.points[said:]:
                say(_line(point, assignment.budget))
            said = len(report.points)
            if interrupt.requested and not report.outcome:
                raise KeyboardInterrupt


def _for_one_training(config: StudyConfig, tokens: str | None, corpus: str | None) -> StudyConfig:
    """The study for a single training: without early stopping and diagnostics, and with the tokens
    and the corpus that the user names."""
    changes: dict[str, object] = {"stopping.enabled": False}
    if not config.train.command:
        changes["train.diagnostics"] = False
    if tokens is not None:
        changes |= dict.fromkeys((*AMOUNTS, "horizon_of"))
        changes["tokens"] = count_of("--tokens", tokens)
    if corpus is not None:
        if not isinstance(config.objective, LanguageConfig):
            raise ConfigError(
                "`--data` needs a shape that was searched on `objective: language`, got "
                f"`{config.objective.name}`; drop it"
            )
        changes["objective.corpus"] = corpus
    return changed(config, changes)


def _check_corpus(objective: ObjectiveConfig) -> None:
    """Checks that the text of a study is there, relative to the folder in which Fathom runs."""
    if not isinstance(objective, LanguageConfig) or objective.corpus in CORPORA:
        return
    corpus = os.path.expanduser(objective.corpus)
    if not (os.path.isabs(corpus) or os.path.lexists(corpus) or glob.has_magic(corpus)):
        raise ConfigError(
            f"the study's text, {objective.corpus!r}, is not found from {Path.cwd()}; run this in "
            "the folder of the search, or name the text with --data"
        )


def _check_vocabulary(objective: Objective, config: StudyConfig, chosen: BestShape) -> None:
    """Checks that the data have as many token ids as the shape; data and shape may have changed
    since the search."""
    if objective.vocab_size == chosen.shape.vocab_size:
        return
    where = "the data"
    if isinstance(config.objective, LanguageConfig):
        where = f"{config.objective.corpus!r} by `{config.objective.tokenizer}`"
    raise ConfigError(
        f"the vocabulary must have the shape's {chosen.shape.vocab_size} token ids, but that of "
        f"{where} has {objective.vocab_size}; use the study's text, or search again on this one"
    )


def _sizes(shape: Shape) -> str:
    return (
        f"depth {shape.depth}, d_model {shape.d_model}, d_ff {shape.d_ff}, "
        f"{shape.params_total:,} parameters"
    )


def _line(point: CurvePoint, budget: Budget) -> str:
    share = point.step / budget.steps
    metrics = "".join(
        f"  {name} {value:,.0f}" if name.endswith("_left") else f"  {name} {value:.4f}"
        for name, value in point.metrics.items()
        if not name.startswith(BY_LAYER)
    )
    text = f"{share:4.0%}  {point.tokens:>12,} tokens  loss {point.loss:.4f}{metrics}"
    if not point.train_seconds:  # not known of a command that ended without its reader
        return text
    rate = point.tokens / point.train_seconds
    left = format_seconds((budget.tokens - point.tokens) / rate)
    return f"{text}  {rate:,.0f} tokens/s  {left} left"


def _end(point: CurvePoint, reason: str) -> str:
    """The last line on a training: its loss and its duration."""
    bits = point.metrics.get("bits_per_byte")
    in_bits = f", {bits:.4f} bits per byte" if bits is not None else ""
    took = format_seconds(point.train_seconds)
    return (
        f"{reason}: held-out loss {point.loss:.4f} nats per token{in_bits}, after {point.tokens:,} "
        f"tokens in {took}"
    )
