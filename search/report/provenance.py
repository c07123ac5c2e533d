"""The source of a report's numbers: records, seeds, rates, times and versions, as text."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from fathom.search.conclusion import Findings
from fathom.search.formatting import format_count
from fathom.search.records import Stage, TrialRecord
from fathom.search.report.text import counted
from fathom.search.study.keys.config import StudyConfig, dump
from fathom.search.study.keys.groups import TrackingConfig

DECIDING_PACKAGES = ("fathom-depth", "torch", "ray", "optuna", "mlflow", "numpy", "scipy")
"""Packages whose versions a result may depend on."""
COUNT_MEANING = {
    "total": "every trained parameter",
    "non-embedding": "every trained parameter but token embedding, positions and unembedding",
    "matrices": "weights of attention and feed-forward, 12 depth d_model² where d_ff is 4 d_model",
    "flops": "operations of a forward pass for a token",
    "heads": "heads of all layers together; parameters differ between depths",
    "width": "d_model; parameters grow with depth",
}


def versions() -> dict[str, str]:
    """Returns the versions of Python and of every package that a result may depend on."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in DECIDING_PACKAGES
    }


def settings_of(config: StudyConfig) -> str:
    """Returns the resolved study file, without the addresses of its stores."""
    return dump(config.model_copy(update={"tracking": TrackingConfig()}))


def provenance(conclusion: Findings) -> dict[str, str]:
    """Returns heading -> fact; a fact is empty where nothing is known."""
    records, optima = conclusion.records, conclusion.optima
    rules = dict.fromkeys(optimum.count.label for optimum in optima)
    return {
        "Source": f"records.jsonl, {counted(len(records), 'trial')}",
        "Horizon": "; ".join(
            f"{known.tokens:,} tokens at {format_count(known.budget)}" for known in optima
        ),
        "Counting rule": "; ".join(f"{rule}: {COUNT_MEANING[rule]}" for rule in rules),
        **_from_records(records),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def _from_records(records: Sequence[TrialRecord]) -> dict[str, str]:
    if not records:
        return {}
    rates = sorted({record.spec.learning_rate for record in records})
    ended = [record.ended for record in records if record.ended is not None]
    facts = {
        f"Seeds, {stage}": _spanned({r.spec.seed for r in records if r.spec.stage is stage})
        for stage in Stage
    }
    facts["Learning rate"] = ", ".join(f"{rate:g}" for rate in rates)
    facts["First trial started"] = _moment(min(record.started for record in records))
    if ended:
        facts["Last trial ended"] = _moment(max(ended))
    return facts


def _spanned(seeds: set[int]) -> str:
    if not seeds:
        return ""
    return f"{len(seeds)} different, {min(seeds)} to {max(seeds)}; tables/trials.csv has each"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
