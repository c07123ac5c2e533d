"""Tests if the best rate carries over depth and width, for the three schemes side by side.

python -m benchmarks.answers.trained.carrying configs/quickstart.yaml
python -m benchmarks.answers.trained.carrying configs/quickstart.yaml --deep 32 --scheme mup
python -m benchmarks.answers.trained.carrying configs/quickstart.yaml --warmup 0.02 \\
    --scheme completep
python -m benchmarks.answers.trained.carrying configs/quickstart.yaml --coordinates
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.parametrization import Scheme
from fathom.search.laboratory.check.check import (
    ONE_STACK,
    AxisCheck,
    CheckResult,
    check_study,
    coordinate_check,
)
from fathom.search.laboratory.check.probe import PROBE, Probe
from fathom.search.study.file.study_file import load
from fathom.search.study.keys.config import StudyConfig

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "as it is": {},
    "rate x1/100": {"train": {"learning_rate": 0.01}},
    "rate x1/10": {"train": {"learning_rate": 0.1}},
    "rate x5": {"train": {"learning_rate": 5.0}},
    "heads of 16": {"space": {"n_heads": None, "head_dim": 16}},
    "4 heads": {"space": {"n_heads": 4}},
    "untied": {"model": {"tied": False}},
    "gated": {"model": {"gated": True}},
    "learned positions": {"model": {"positions": "learned"}},
    "grouped queries": {"model": {"attention": {"queries_per_key": 2}}},
    "QK-norm": {"model": {"attention": {"qk_norm": True}}},
    "squared ReLU": {"model": {"feed_forward": {"activation": "relu2"}}},
    "Muon": {"train": {"optimizer": "muon"}},
    "4 experts": {"model": {"experts": {"number": 4}}},
}
"""Changes of a study by group; rates are multiples of its own."""


def varied(config: StudyConfig, scheme: Scheme, variant: str) -> StudyConfig:
    """The study with another scheme and one change."""
    raw = config.model_dump(mode="json")
    raw["model"]["parametrization"]["scheme"] = scheme.value
    for group, changes in VARIANTS[variant].items():
        if "learning_rate" in changes:
            changes = {"learning_rate": changes["learning_rate"] * config.train.learning_rate}
        raw[group] |= changes
    return StudyConfig.model_validate(raw)


def transfer_rows(result: CheckResult) -> list[list[object]]:
    """Returns the cells of a row for each axis of a scheme."""
    scheme = result.config.model.parametrization.scheme
    return [
        [
            scheme.value,
            f"{axis.axis.value} {axis.sizes[0]} to {axis.sizes[1]}",
            f"x{2**axis.base.best_log2_factor:.2f} to x{2**axis.far.best_log2_factor:.2f}",
            f"{axis.base.lowest.loss:.3f} to {axis.far.lowest.loss:.3f}",
            f"{axis.log2_shift:+.2f} ± {axis.error:.2f}",
            round(_exponent(axis), 2),
            "carries over" if axis.carries_over else "does not",
        ]
        for axis in result.axes
    ]


def _exponent(axis: AxisCheck) -> float:
    """The largest exponent of an axis of Fathom's own model."""
    assert axis.coordinates, "these studies have no model of the user's"
    return axis.coordinates.largest[1]


def largest_exponents(config: StudyConfig, scheme: Scheme, variant: str) -> list[str]:
    """Largest exponent of the coordinate check over each axis, as text."""
    study = varied(config, scheme, variant)
    return [f"{coordinate_check(study, axis).largest[1]:+.2f}" for axis in ONE_STACK]


def print_coordinates(config: StudyConfig, schemes: list[Scheme], file: Path | None) -> None:
    """Prints the table of the coordinate check over kinds of models."""
    heads = ["largest exponent, depth / width", *(scheme.value for scheme in schemes)]
    table = PrintedTable(dict.fromkeys(heads, ""), file)
    for variant in VARIANTS:
        exponents = (largest_exponents(config, scheme, variant) for scheme in schemes)
        table.add(variant, *map(" / ".join, exponents))


def print_transfer(
    config: StudyConfig, schemes: list[Scheme], probe: Probe, file: Path | None
) -> None:
    """Prints the table of the whole check for each scheme."""
    heads = ("scheme", "axis", "best rate", "loss there", "log2 factor per doubling")
    table = PrintedTable(
        {**dict.fromkeys(heads, ""), "largest exponent": "+.2f", "verdict": ""}, file
    )
    for scheme in schemes:
        result = check_study(varied(config, scheme, "as it is"), lambda *_: None, probe)
        for cells in transfer_rows(result):
            table.add(*cells)


def main() -> None:
    """Prints one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="study file")
    parser.add_argument(
        "--coordinates", action="store_true", help="coordinate check over kinds of models"
    )
    parser.add_argument("--scheme", type=Scheme, action="append", help="which; all by default")
    parser.add_argument("--deep", type=int, default=PROBE.depths[1], help="the deep shape's depth")
    parser.add_argument("--warmup", type=float, default=PROBE.warmup, help="share of the steps")
    add_json_option(parser)
    asked = parser.parse_args()
    # The schemes are known for AdamW; Muon is one of the kinds.
    config = load(asked.study, ("train.optimizer=adamw",))
    schemes = asked.scheme or list(Scheme)
    if asked.coordinates:
        print_coordinates(config, schemes, asked.json)
    else:
        depths = (PROBE.depths[0], asked.deep)
        probe = replace(PROBE, depths=depths, warmup=asked.warmup)
        print_transfer(config, schemes, probe, asked.json)


if __name__ == "__main__":
    main()
