"""Tables of runs as people have them: with one fault each, or sound."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np
from numpy.random import Generator

Row = dict[str, Any]
DEPTHS = (2, 4, 8, 12, 16, 24)


@dataclass(frozen=True, slots=True)
class Faulty:
    """Rows with a fault, and a part of the sentence that says so."""

    rows: list[Row]
    word: str
    told: Mapping[str, str] = field(default_factory=dict)


def planted(depth: float, size: float = 1e7, level: float = 3.1, best: float = 7.0) -> float:
    """The loss of a depth, which is lowest at `best`."""
    return level * (1 + 0.02 * log(depth / best) ** 2) - 0.05 * level * log(size / 1e7)


def finals(
    g: Generator, *, seeds: int = 3, level: float = 3.1, sizes: tuple[float, ...] = (1e7,),
    noise: float = 0.001,
) -> list[Row]:  # fmt: skip
    """A final loss for each seed of each depth; noise is a share of the level."""
    return [
        {
            "n_layer": depth, "n_params": exact, "seed": seed,
            "val_loss": planted(depth, exact, level) + g.normal(0, noise * level),
        }
        for size in sizes
        for depth in DEPTHS
        for exact in [int(size * g.uniform(0.98, 1.02))]
        for seed in range(seeds)
    ]  # fmt: skip


def same_size(g: Generator, **options: Any) -> list[Row]:
    """Final losses at exactly one size."""
    return [row | {"n_params": 10_000_000} for row in finals(g, **options)]


def curves(g: Generator, *, time: str = "tokens", seeds: int = 2, level: float = 3.1) -> list[Row]:
    """Ten evaluations of each run."""
    return [
        row | {time: at * 10**6, "val_loss": row["val_loss"] + 2 * (1 / at - 1 / 10)}
        for row in same_size(g, seeds=seeds, level=level)
        for at in range(1, 11)
    ]


def deep(row: Row) -> bool:
    """True for the deeper half of the depths."""
    return bool(row["n_layer"] > 8)


def where_deep(rows: list[Row], **values: Any) -> list[Row]:
    """The rows with these values at the deeper depths."""
    return [row | values if deep(row) else row for row in rows]


def renamed(rows: list[Row], **names: str) -> list[Row]:
    """The rows with other names of columns."""
    return [{names.get(name, name): value for name, value in row.items()} for row in rows]


def without(rows: list[Row], *names: str) -> list[Row]:
    """The rows without these columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def accuracies(rows: list[Row], factor: float) -> list[Row]:
    """The rows with accuracies, of which more is better, for losses."""
    best = min(row["val_loss"] for row in rows)
    return [row | {"val_loss": factor * (0.9 - 0.3 * (row["val_loss"] - best))} for row in rows]


def searched(g: Generator, *, widths: bool = False) -> list[Row]:
    """Trials of a search that drew its settings, of which the table has none."""
    penalty = g.exponential(g.uniform(0.05, 0.2), 120)
    rows = []
    for more in penalty:
        depth = int(g.choice(DEPTHS))
        size = 1e7 * (g.uniform(0.93, 1.07) if widths else 1)
        loss = planted(depth, size) + more + g.normal(0, 0.003)
        rows.append({"n_layer": depth, "n_params": int(size), "val_loss": loss})
    return rows


def swept_without_a_word(g: Generator) -> list[Row]:
    """Four rates of each depth in one seed, whose column was dropped."""
    steps = 0.08 * np.array([0.0, 0.4, 1.0, 2.0]) * g.uniform(0.8, 1.5)
    return [
        row | {"val_loss": row["val_loss"] + step}
        for row in same_size(g, seeds=1)
        for step in steps
    ]


def embedding_heavy(g: Generator) -> list[Row]:
    """One total, most of which is the embedding; the deeper, the more layers."""
    return [
        row | {"n_params": int(4e7 + 1.5e5 * row["n_layer"]), "n_embd": 112} for row in finals(g)
    ]


FAULTS: Mapping[str, Callable[[Generator], Faulty]] = {
    "zero": lambda g: Faulty(
        [row | {"val_loss": 0} if row["n_layer"] == 24 else row for row in finals(g)], "loss of 0"
    ),
    "minus one": lambda g: Faulty(where_deep(finals(g), val_loss=-1), "negative loss"),
    "sign turned": lambda g: Faulty(
        [row | {"val_loss": -row["val_loss"]} for row in finals(g)], "turn the sign"
    ),
    "999": lambda g: Faulty(where_deep(finals(g), val_loss=999), "diverged"),
    "100 nats of bits": lambda g: Faulty(where_deep(finals(g), val_loss=69.31471806), "diverged"),
    "ten": lambda g: Faulty(where_deep(finals(g), val_loss=10.0), "diverged"),
    "infinite": lambda g: Faulty(where_deep(finals(g), val_loss="inf"), "diverged"),
    "not a number": lambda g: Faulty(where_deep(curves(g), val_loss="nan"), "diverged"),
    "accuracy as value": lambda g: Faulty(
        renamed(accuracies(finals(g), 1), val_loss="value"), "accuracies"
    ),
    "per cent": lambda g: Faulty(accuracies(finals(g), 100), "more than a guess"),
    "accuracy by --map": lambda g: Faulty(
        renamed(accuracies(finals(g), 1), val_loss="eval/accuracy"),
        "more is better",
        {"eval/accuracy": "loss"},
    ),
    "bleu by --map": lambda g: Faulty(
        renamed(accuracies(finals(g), 10), val_loss="BLEU"), "more is better", {"BLEU": "loss"}
    ),
    "reward by --map": lambda g: Faulty(
        renamed(accuracies(finals(g), 5), val_loss="mean_reward"),
        "more is better",
        {"mean_reward": "loss"},
    ),
    "perplexity": lambda g: Faulty(
        [row | {"val_loss": np.exp(row["val_loss"])} for row in finals(g)], "more than a guess"
    ),
    "sums": lambda g: Faulty(
        [row | {"val_loss": 100 * row["val_loss"]} for row in finals(g)], "more than a guess"
    ),
    "accuracy that rises": lambda g: Faulty(
        [row | {"val_loss": 9 - row["val_loss"]} for row in curves(g)], "rises"
    ),
    "settings dropped": lambda g: Faulty(searched(g), "settings that the table lacks"),
    "widths drawn": lambda g: Faulty(searched(g, widths=True), "settings that the table lacks"),
    "one seed for all": lambda g: Faulty(
        [row | {"seed": 42} for row in searched(g)], "same seed"
    ),
    "rates dropped": lambda g: Faulty(
        without(swept_without_a_word(g), "seed"), "settings that the table lacks"
    ),
    "rates dropped, seed kept": lambda g: Faulty(swept_without_a_word(g), "same seed"),
    "tokens by row": lambda g: Faulty(
        [row | {"tokens": int(1e9 * g.uniform(1, 12))} for row in finals(g)], "tokens"
    ),
    "2B and 3B": lambda g: Faulty(
        where_deep([row | {"tokens": 2e9} for row in finals(g)], tokens=3e9), "tokens goes with"
    ),
    "tokens per parameter": lambda g: Faulty(
        where_deep([row | {"tokens_per_param": 20} for row in finals(g)], tokens_per_param=40),
        "tokens_per_param goes with depth",
    ),
    "gated": lambda g: Faulty(
        where_deep([row | {"gated_mlp": "False"} for row in finals(g)], gated_mlp="True"),
        "gated_mlp goes with depth",
    ),
    "gated as number": lambda g: Faulty(
        where_deep([row | {"ffn_gated": 0} for row in same_size(g)], ffn_gated=1),
        "ffn_gated goes with depth",
    ),
    "eta": lambda g: Faulty(
        where_deep([row | {"eta": 0.001} for row in finals(g)], eta=0.0003),
        "eta goes with depth",
    ),
    "expansion": lambda g: Faulty(
        where_deep([row | {"mlp_expansion": 4} for row in same_size(g)], mlp_expansion=2.5),
        "mlp_expansion goes with depth",
    ),
    "least rate": lambda g: Faulty(
        where_deep([row | {"lr_min": 1e-4} for row in finals(g)], lr_min=1e-5),
        "lr_min goes with depth",
    ),
    "loss function": lambda g: Faulty(
        where_deep([row | {"loss_fn": "ce"} for row in finals(g)], loss_fn="focal"),
        "loss_fn goes with depth",
    ),
    "equal totals": lambda g: Faulty(embedding_heavy(g), "the layers have"),
    "a steep end": lambda g: Faulty(
        [
            {"n_layer": d, "n_params": 10**7, "seed": s, "val_loss": loss + g.normal(0, 0.002)}
            for d, loss in ((11, 0.772), (15, 0.843), (16, 1.107))
            for s in range(3)
        ],
        "far below",
    ),
}  # fmt: skip
"""Kind of fault -> its table by a generator."""


def of_tracker(g: Generator) -> list[Row]:
    """The export of a tracker: dozens of columns that are no settings."""
    return [
        {
            "Name": f"run-{number}", "State": "finished", "_runtime": g.uniform(900, 4000),
            "_timestamp": 1.7e9 + number, "config.n_layer": row["n_layer"],
            "config.batch_size": 64, "config.seed": row["seed"], "n_params": row["n_params"],
            "config.n_embd": round((row["n_params"] / 12 / row["n_layer"]) ** 0.5),
            "train/loss": row["val_loss"] - 0.1, "eval/accuracy": g.uniform(0.3, 0.4),
            "peak_memory_gb": round(10 + row["n_layer"] / 3), "epoch": 1, "gpu": "A100",
            "val_loss": row["val_loss"],
        }
        for number, row in enumerate(finals(g))
    ]  # fmt: skip


def of_optuna(g: Generator) -> list[Row]:
    """The data frame of a study of Optuna's."""
    return [
        {
            "number": number, "value": row["val_loss"], "params_n_layer": row["n_layer"],
            "params_seed": row["seed"], "user_attrs_n_params": row["n_params"],
            "duration": f"0 days 00:{number % 60:02}:10", "state": "COMPLETE",
        }
        for number, row in enumerate(finals(g))
    ]  # fmt: skip


def with_shapes(g: Generator) -> list[Row]:
    """Columns that follow from the shape."""
    rows = []
    for row in finals(g):
        depth, width = row["n_layer"], round((1e7 / 12 / row["n_layer"]) ** 0.5 / 16) * 16
        rows.append(
            row | {
                "n_params": 12 * depth * width**2, "n_embd": width, "n_head": width // 16,
                "aspect_ratio": round(width / depth, 2), "d_ff": 4 * width, "ff_ratio": 4,
                "tokens_per_param": 20, "gated_mlp": True, "flops_per_token": 72 * depth * width**2,
                "embedding_params": 50_000 * width, "loops": depth // 2,
            }
        )  # fmt: skip
    return rows


def broken_off(g: Generator) -> list[Row]:
    """Curves of which a search stopped a third early."""
    short = {(depth, seed) for depth in DEPTHS for seed in range(3) if seed == 2 and depth != 8}
    return [
        row for row in curves(g, seeds=3)
        if (row["n_layer"], row["seed"]) not in short or row["tokens"] <= 4e6
    ]  # fmt: skip


def rates_swept(g: Generator) -> list[Row]:
    """Each depth at the same three rates."""
    return [
        row | {"lr": rate, "val_loss": row["val_loss"] + 0.03 * (rate != 1e-3)}
        for row in finals(g)
        for rate in (3e-4, 1e-3, 3e-3)
    ]


SOUND: Mapping[str, Callable[[Generator], list[Row]]] = {
    "seeds": finals,
    "two sizes": lambda g: finals(g, sizes=(1e7, 4e7)),
    "three sizes": lambda g: finals(g, sizes=(3e6, 1e7, 1e8), seeds=2),
    "one seed": lambda g: without(finals(g, seeds=1), "seed"),
    "five without a column": lambda g: without(same_size(g, seeds=5), "seed"),
    "some failed": lambda g: [
        row for row in without(same_size(g), "seed") if g.uniform() > 0.1 or not deep(row)
    ],
    "noisy": lambda g: finals(g, seeds=4, noise=0.006),
    "bits": lambda g: finals(g, level=0.75),
    "classes": lambda g: finals(g, level=0.3),
    "early": lambda g: finals(g, level=7.5),
    "curves": curves,
    "curves by step": lambda g: curves(g, time="step"),
    "one diverged": lambda g: [
        row | {"val_loss": "nan"} if (row["n_layer"], row["seed"]) == (24, 0) else row
        for row in finals(g)
    ],
    "zero before the first evaluation": lambda g: [
        row | {"val_loss": 0.0} if row["tokens"] == 10**6 else row for row in curves(g)
    ],
    "tracker": of_tracker,
    "optuna": of_optuna,
    "shapes": with_shapes,
    "broken off": broken_off,
    "rates": rates_swept,
    "horizons": lambda g: [
        row | {"tokens": at, "val_loss": row["val_loss"] + 1e9 / at, "run": f"{number}-{at}"}
        for number, row in enumerate(finals(g))
        for at in (10**9, 2 * 10**9, 4 * 10**9)
    ],
}  # fmt: skip
"""Kind of table -> its rows by a generator."""
