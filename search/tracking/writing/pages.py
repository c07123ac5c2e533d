"""Names, tags and descriptions of runs, as text for readers of MLflow's web page."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from fathom.search.analysis.answer.interim import InterimAnswer
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.laws.law import Law
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.formatting import budget_text, format_count
from fathom.search.records import Outcome, Stage, TrialRecord, TrialSpec
from fathom.search.report.words.certainty import certainty
from fathom.search.report.words.other_depths import COST, cost_text
from fathom.search.report.words.text import (
    answer,
    depths_not_ruled_out,
    interval,
    law_formula,
    optional,
    sentence,
    shape_text,
    summary_table,
    untrained_text,
)
from fathom.search.scheduling.audit import RungAudit
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.horizons import horizon_name, parent_name
from fathom.search.tracking.writing.views import ALL_TRIALS, view_address, view_name
from fathom.search.words import probabilities_text, study_reason

NOTE = "mlflow.note.content"
"""Tag whose content MLflow shows as the description."""
RUN_NOTE_CHARACTERS = 8000
"""Most characters that MLflow accepts in a tag of a run."""
EXPERIMENT_NOTE_CHARACTERS = 20_000
"""Most characters that MLflow accepts in a tag of an experiment."""
MODE = "?workflowType=machine_learning"
"""End of every address; without it MLflow opens the page for traces of language-model calls."""
UNDER_WAY = (
    "Search under way; the answer will stand here. The study file is `config.yaml` in Artifacts."
)
BROKEN_OFF = (
    "Search interrupted before it had an answer; the command that began it resumes it. The study "
    "file is `config.yaml` in Artifacts."
)
"""Descriptions of a study that has no answer yet."""

FIGURES, ANSWER = "figures", "answer"
"""Name of the folder of figures, and of the figure with loss against depth at every budget."""
SO_FAR = "so far"
"""Value of a budget's tag `verdict` while its search runs."""
BUDGET_FIGURE = re.compile(r"(.+)-(\d+)\.(png|svg)")
"""Pattern of the file names of figures of one budget."""

STATUS = {
    Outcome.FINISHED: "FINISHED",
    Outcome.STOPPED: "KILLED",
    Outcome.DIVERGED: "FAILED",
    Outcome.OUT_OF_MEMORY: "FAILED",
    Outcome.FAILED: "FAILED",
}
"""MLflow's status for each outcome; the exact outcome is the tag `outcome`."""


def trial_name(spec: TrialSpec) -> str:
    """Returns the name of a trial's run, for example `1M · depth 4 · d_model 128 · seed 0`."""
    parts = [
        budget_text(spec.budget, spec.count),
        f"depth {spec.shape.depth}",
        f"d_model {spec.shape.d_model}",
        f"seed {spec.seed}",
    ]
    if spec.rate_scale != 1:
        parts.append(f"rate x{spec.rate_scale:g}")
    if spec.decay_scale != 1:
        parts.append(f"decay x{spec.decay_scale:g}")
    if spec.stage is Stage.CONFIRM:
        parts.append("confirm")
    return " · ".join(parts)


def trial_tags(record: TrialRecord) -> dict[str, str]:
    """Returns tags by which trials can be filtered; `outcome` and `reason` change with the
    trial."""
    outcome = record.outcome.value if record.outcome else "running"
    return {
        "outcome": outcome,
        "reason": record.reason[:RUN_NOTE_CHARACTERS],
        "stage": record.spec.stage.value,
        "depth": str(record.spec.shape.depth),
        "budget": format_count(record.spec.budget),
        "trial": record.spec.trial,
        NOTE: f"**{outcome}** {record.reason}".strip()[:RUN_NOTE_CHARACTERS],
    }


def answer_tags(found: InterimAnswer) -> dict[str, str]:
    """Returns an interim answer as tags, which MLflow's list of runs shows."""
    known = found.low is not None
    return {
        "best_depth": str(found.depth),
        "interval": f"{found.low}-{found.high}" if known else "",
        "verdict": SO_FAR,
    }


def artifact(path: Path) -> str:
    """Returns the name of a file of the run folder among the artifacts of the study's run.

    The figures of each budget have a folder of their own, and the figure of all answers is at the
    top.
    """
    if path.parent.name != FIGURES or path.stem == ANSWER:
        return path.name
    match = BUDGET_FIGURE.fullmatch(path.name)
    folder = f"{FIGURES}/{format_count(int(match[2]))}" if match else FIGURES
    return f"{folder}/{path.name}"


def budget_name(optimum: Optimum) -> str:
    """Returns the name of a concluded budget's run, for example `1M → depth 6`."""
    label = budget_text(optimum.budget, optimum.count)
    if not optimum.kind.settled:
        return f"{label} → {optimum.kind}"
    return f"{label} → depth {optimum.optimal_depth}"


def budget_tags(optimum: Optimum, audits: Sequence[RungAudit]) -> dict[str, str]:
    """Returns the answer of a budget as tags, not parameters, since a resumed study may change
    it."""
    reason = study_reason(optimum.verdict)
    return {
        "verdict": optimum.kind.value,
        "reason": reason[:RUN_NOTE_CHARACTERS],
        "best_depth": str(optimum.optimal_depth or ""),
        "interval": interval(optimum),
        "plateau": depths_not_ruled_out(optimum),
        "probabilities": probabilities_text(optimum),
        "stopping": _audit_result(optimum, audits),
        NOTE: fitted(
            [
                f"**{answer(optimum)}**",  # as a heading of two lines it would cover itself
                reason,
                _shape(optimum),
                "\n".join(f"- {head}: {fact}" for head, fact in certainty(optimum).items()),
                _depths(optimum),
                _audit(audits),
            ]
        ),
    }


def study_tags(optima: Sequence[Optimum], config: StudyConfig) -> dict[str, str]:
    """Returns tags for the list of runs: each budget's best depth and, for one of several horizons,
    the horizon and the study's name."""
    found = (o for o in optima if o.optimal_depth is not None)
    depths = ", ".join(f"{budget_text(o.budget, o.count)}: {o.optimal_depth}" for o in found)
    tags = {"best_depth": depths[:RUN_NOTE_CHARACTERS]}
    horizon = horizon_name(config)
    if horizon is None:
        return tags
    return tags | {"horizon": horizon, "study_of_horizons": parent_name(config)}


def law_line(law: Law) -> str:
    """Returns a fitted law with its error in one line."""
    error = optional(law.leave_one_out_error, ".3f")
    tested = f"; leave-one-out error of ln depth {error}" if error else ""
    return f"- {law.name}: {law_formula(law)}{tested}"


def study_note(
    conclusion: Conclusion, *, files: Sequence[tuple[Path, str]], page: str, run_id: str
) -> str:
    """Returns the description of a study's run: answers, figure, table, laws, files and YAML.

    `files` are pairs of a local path and the file's name in the run; `page` is the address of the
    run.
    """
    answers = "\n".join(f"- **{answer(optimum)}**" for optimum in conclusion.optima)
    law_lines = "\n".join(law_line(law) for law in conclusion.laws)
    names = [name for _, name in files]
    pictures = sorted((n for n in names if n.endswith((".png", ".svg"))), key=_answer_first)
    links = [f"- [{n}]({page}/artifacts/{n}{MODE})" for n in names if "/" not in n]
    if pictures:
        links.append(f"- figures of each budget: [Artifacts]({page}/artifacts{MODE})")
    return fitted(
        [
            answers or "Nothing has finished yet.",  # MLflow folds all but the first lines
            # An address relative to the page, so that it holds on any server that has the run.
            *(f"![{n}](get-artifact?path={n}&run_uuid={run_id})" for n in pictures[:1]),
            summary_table(conclusion.optima),
            f"## Law\n\n{law_lines}" if law_lines else "",
            "## Files\n\n" + "\n".join(links) if links else "",
            *(
                f"## {name}\n\n```yaml\n{path.read_text()}```"
                for path, name in files
                if name == "best.yaml"
            ),
        ]
    )


def experiment_note(optima: Sequence[Optimum], page: str, experiment: str) -> str:
    """Returns the description of an experiment; MLflow's lists show only its beginning.

    `page` is the address of the study's run.
    """
    answers = ", ".join(
        budget_name(o) + (interval(o, " (", ")") if o.kind.decided else "") for o in optima
    )
    links = (
        f"[table, figures and YAML]({page}{MODE}), "
        f"[trials side by side]({view_address(experiment, ALL_TRIALS)})"
    )
    lines = "\n".join(
        f"- {answer(o)}: [its trials]({view_address(experiment, view_name(o.budget))})"
        for o in optima
    )
    beginning = f"{answers or 'No answer yet'}: {links}"
    return fitted([beginning, lines], EXPERIMENT_NOTE_CHARACTERS) or links


def fitted(sections: Iterable[str], limit: int = RUN_NOTE_CHARACTERS) -> str:
    """Returns as many of the first sections as fit in full; a table that is cut short would
    mislead."""
    note = ""
    for section in sections:
        longer = f"{note}\n\n{section}" if note else section
        if section and len(longer) <= limit:
            note = longer
    return note


def _answer_first(name: str) -> tuple[bool, bool, str]:
    return not name.startswith(ANSWER), "depth" not in name, name


def _shape(optimum: Optimum) -> str:
    if optimum.shape is None:
        return ""
    untrained = sentence(untrained_text(optimum))
    return f"Best shape: {shape_text(optimum.shape)}. {untrained}".rstrip()


def _audit_result(optimum: Optimum, audits: Sequence[RungAudit]) -> str:
    """Returns the result of a budget's audit in one word, by which runs can be filtered."""
    if any(audit.failed for audit in audits):
        return "failed"
    if not optimum.trials[Outcome.STOPPED] and not any(audit.stopped for audit in audits):
        return "not used"
    trusted = audits and all(audit.trusted or not audit.stopped for audit in audits)
    return "trusted" if trusted else "unknown"


def _audit(audits: Sequence[RungAudit]) -> str:
    lines = "\n".join(f"- {audit.sentence}" for audit in audits)
    return f"## Can the stopping be trusted?\n\n{lines}" if lines else ""


def _depths(optimum: Optimum) -> str:
    head = f"| depth | mean of its trials | standard error | trials | {COST} |\n|{'---:|' * 5}\n"
    costs = {cost.depth: cost_text(cost) for cost in optimum.costs}
    rows = (
        f"| {d.depth} | {d.loss:.4f} | {d.standard_error:.4f} | {d.trials} |"
        f" {costs.get(d.depth, '-')} |"
        for d in optimum.depths
    )
    return head + "\n".join(rows) if optimum.depths else ""
