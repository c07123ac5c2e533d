"""Counts false answers on tables of runs in which another setting goes with depth, and refusals of
tables in which none does.

Each table has a planted best depth, names of columns as people and tools give them, dozens of
columns that are no settings, and either a setting that moves the loss by 0.02 nats or more and goes
with depth, or none: `python -m benchmarks.answers.tables.confounds --json FILE`.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion

Row = dict[str, Any]

TABLES = 40
FIRST_SEED = 0
MOST_FLAGS = 4
"""Flags that are given one after the other as refusals advise."""
CURVATURE = 0.06
"""Rise with the squared ln of a factor in depth, nats."""
EFFECTS = (0.02, 0.15)
"""Range of the effect of a setting that goes with depth, nats for one value more."""
GAIN = 0.3
"""Nats for a unit of ln(parameters)."""
SETTINGS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "batch": (("batch_size", "config.train_batch_size", "Batch Size", "bsz"), (16, 32, 64, 128)),
    "rate": (("lr", "config/learning_rate", "peak_lr", "max_lr"), (1e-4, 3e-4, 1e-3, 3e-3)),
    "decay": (("weight_decay", "wd", "optimizer.weight_decay"), (0.0, 0.1, 0.4, 1.6)),
    "warm-up": (("warmup_steps", "warmup", "config.num_warmup_steps"), (100, 400, 2000, 4000)),
    "context": (("context_length", "seq_len", "block_size", "n_ctx"), (256, 512, 1024, 2048)),
    "heads": (("n_heads", "num_attention_heads", "n_head"), (2, 16, 4, 32)),
    "family": (("family", "model_type", "arch"), ("gpt2", "llama", "mamba", "neox")),
    "data": (("dataset", "data.corpus", "train_data"), ("c4", "fineweb", "pile", "owt")),
    "dropout": (("dropout", "resid_pdrop", "config.dropout"), (0.0, 0.1, 0.2, 0.3)),
    "optimizer": (
        ("optimizer", "optim", "config.optimizer.name"),
        ("adamw", "muon", "lion", "sgd"),
    ),
    "beta": (("adam_beta2", "beta2", "optimizer.beta2"), (0.9, 0.95, 0.99, 0.999)),
    "epochs": (("epochs", "num_epochs", "data_epochs"), (1, 2, 4, 8)),
    "accumulation": (("gradient_accumulation_steps", "grad_accum"), (1, 2, 4, 8)),
    "switch": (("use_qk_norm", "tie_embeddings", "zeta"), ("on", "off", "auto", "new")),
    "number of no known name": (("kappa", "theta", "k"), (1, 2, 4, 8)),
}
"""Setting -> names of its column, and values."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table, the planted best depth, and what was planted beside it."""

    rows: list[Row]
    best: float
    planted: str
    confounded: bool


def main() -> None:
    """Prints what became of the tables with and without a confound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES, help="of either kind")
    parser.add_argument("--verbose", action="store_true", help="print what was said")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the first table")
    add_json_option(parser)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.tables)
    table = PrintedTable(
        {"tables": "", "number": "d", **dict.fromkeys(OUTCOMES, "d")}, arguments.json
    )
    for name, effect in zip(("least_effect", "most_effect"), EFFECTS, strict=True):
        table.figure(name, effect, "nats")
    texts = []
    for name, made, said in (
        ("with a confound", confounded_table, outcome),
        ("as advised", confounded_table, outcome_by_advice),
        ("without", clean_table, outcome),
    ):
        found = [said(made(seed)) for seed in seeds]
        counts = Counter(kind for kind, _ in found)
        table.add(name, len(found), *(counts[kind] for kind in OUTCOMES))
        texts += [text for kind, text in found if kind == "false" or made is clean_table]
    if arguments.verbose:
        print(*texts, sep="\n")


OUTCOMES = ("identified", "false", "other verdict", "refused")
"""`false`: identified with an interval that does not hold the best depth, or in spite of a setting
that goes with depth, which the table itself did not hold or part by."""
ADVICE = re.compile(r"--(best-of|where|by) ((?:'[^']*'|[^\s,;'])+)")
ANYTHING = TableQuestion()
DECIDED = ("held at", "has answers of its own", "the best value counts")
"""What notes say of settings of which the table decides."""


def outcome(table: Table, asked: TableQuestion = ANYTHING) -> tuple[str, str]:
    """What the analysis says of a table: one of `OUTCOMES`, and a text for a person."""
    try:
        analysis = analyse_table(rows_of(table.planted, table.rows), {}, asked)
    except TableError as error:
        return "refused", f"{table.planted}: {error}"
    told = any(text in note for note in analysis.notes for text in DECIDED) or bool(asked.columns)
    texts = []
    for found in analysis.findings:
        for optimum in found.optima:
            if optimum.kind is Kind.IDENTIFIED and isinstance(optimum, Located):
                low, high = optimum.interval
                texts.append(f"{table.planted}: {low} to {high}, best {table.best:.1f}")
                if (table.confounded and not told) or not low - 1 < table.best < high + 1:
                    return "false", texts[-1]
    kinds = {str(optimum.kind) for found in analysis.findings for optimum in found.optima}
    return ("identified", texts[0]) if texts else ("other verdict", f"{table.planted}: {kinds}")


def outcome_by_advice(table: Table) -> tuple[str, str]:
    """What the analysis says of a table once the first flag of each refusal was given."""
    asked = ANYTHING
    for _ in range(MOST_FLAGS):
        kind, text = outcome(table, asked)
        advice = ADVICE.search(text) if kind == "refused" else None
        if not advice:
            break
        flag, value = advice.groups()
        if flag == "where":
            name, _, kept = value.replace("'", "").partition("=")
            asked = replace(asked, where={**asked.where, name: kept})
        elif flag == "best-of":
            asked = replace(asked, best_of=(*asked.best_of, value.replace("'", "")))
        else:
            asked = replace(asked, by=(*asked.by, value.replace("'", "")))
    return kind, f"{text} ({asked})"


def confounded_table(seed: int) -> Table:
    """A table in which a setting that moves the loss goes with depth."""
    generator = np.random.default_rng([seed, 1])
    setting = list(SETTINGS)[seed % len(SETTINGS)]
    layout = LAYOUTS[int(generator.integers(len(LAYOUTS)))]
    names, values = SETTINGS[setting]
    name, effect = str(generator.choice(names)), float(generator.uniform(*EFFECTS))
    picked = [values[index] for index in generator.permutation(len(values))]
    rows, best, depths = _plain(generator)
    for row in rows:
        place = layout(depths.index(row["depth"]), len(depths), generator)
        row[name] = picked[place % len(picked)]
        row["loss"] += effect * place
    planted = f"{setting}, {layout.__name__}, {name}, {effect:.3f}"
    return Table(_dressed(rows, generator), best, planted, confounded=True)


def clean_table(seed: int) -> Table:
    """A table in which no setting goes with depth; in half of them some vary otherwise."""
    generator = np.random.default_rng([seed, 2])
    rows, best, _ = _plain(generator)
    kind = ("plain", "crossed", "by size", "plain")[seed % 4]
    if kind == "crossed":
        setting = str(generator.choice(list(SETTINGS)))
        names, values = SETTINGS[setting]
        name, pair = str(generator.choice(names)), generator.permutation(len(values))[:2]
        rows = [
            row | {name: values[place], "loss": row["loss"] + 0.05 * turn}
            for row in rows
            for turn, place in enumerate(pair)
        ]
        for row in rows:
            row["loss"] += generator.normal(0, 0.003)
    if kind == "by size":
        sizes = sorted({row["group"] for row in rows})
        for row in rows:
            row["batch_size"] = 32 * 2 ** sizes.index(row["group"])
            row["warmup_steps"] = round(row["params"] / 1e5)
            row["max_lr"] = float(f"{3e-3 * (row['params'] / 1e7) ** -0.3:.3g}")
    return Table(_dressed(rows, generator), best, kind, confounded=False)


def _plain(generator: Generator) -> tuple[list[Row], float, list[int]]:
    """Rows with the loss of every depth and seed at one size to three."""
    count = int(generator.integers(5, 8))
    depths = sorted({round(2 * 2 ** (k * 0.8)) for k in range(count)})
    best = float(np.exp(generator.uniform(log(depths[1]), log(depths[-2]))))
    noise, seeds = float(generator.uniform(0.002, 0.006)), int(generator.integers(2, 4))
    rows = []
    for size in [1e7 * 4**k for k in range(int(generator.integers(1, 4)))]:
        for depth in depths:
            width = max(64, round((size / 12 / depth) ** 0.5 / 64) * 64)
            params = size * float(generator.uniform(0.97, 1.03))
            for seed in range(seeds):
                above = CURVATURE * log(depth / best) ** 2 - GAIN * log(params / 1e7)
                loss = 3.3 + above + float(generator.normal(0, noise))
                rows.append(
                    {
                        "depth": depth, "d_model": width, "params": round(params), "seed": seed,
                        "loss": loss, "group": size,
                    }
                )  # fmt: skip
    return rows, best, depths


def _split(place: int, count: int, _: Generator) -> int:
    return int(place >= count / 2)


def _each(place: int, _: int, __: Generator) -> int:
    return place


def _ends(place: int, count: int, _: Generator) -> int:
    return int(place in (0, count - 1))


def _lone(place: int, count: int, _: Generator) -> int:
    return int(place == count // 2)


def _mostly(place: int, count: int, generator: Generator) -> int:
    return int((place >= count / 2) != (generator.random() < 0.15))


def _middle(place: int, count: int, generator: Generator) -> int:
    if place == count // 2:
        return int(generator.random() < 0.5)
    return int(place > count / 2)


LAYOUTS: Sequence[Callable[[int, int, Generator], int]] = (
    *(_split, _each, _ends, _lone, _mostly, _middle),
)
"""Which value a run has, by the place of its depth among so many."""


def _dressed(rows: list[Row], generator: Generator) -> list[Row]:
    """The rows in any order, with columns as tools add them."""
    extra = generator.permutation(len(COLUMNS))[: int(generator.integers(4, len(COLUMNS)))]
    chosen = [COLUMNS[index] for index in extra]
    if generator.random() < 0.3:
        for row in rows:
            row["n_heads"] = row.get("n_heads", row["d_model"] // 64)
    dressed = []
    for index in generator.permutation(len(rows)).tolist():
        row = dict(rows[index])
        for name, column in chosen:
            row.setdefault(name, column(row, index, generator))
        if "per_device_batch_size" in row:
            row["accumulation_steps"] = 64 // row["per_device_batch_size"]
        del row["group"]
        dressed.append(row)
    return dressed


def _noisy(scale: float, spread: float) -> Callable[[Row, int, Generator], float]:
    return lambda row, _, generator: scale * row["loss"] + float(generator.normal(0, spread))


def _constant(value: Any) -> Callable[[Row, int, Generator], Any]:
    return lambda _, __, ___: value


COLUMNS: Sequence[tuple[str, Callable[[Row, int, Generator], Any]]] = (
    ("Name", lambda _, index, __: f"proud-sun-{index}"),
    ("ID", lambda _, __, generator: f"{generator.integers(1 << 40):x}"),
    ("Created", lambda _, index, __: f"2026-03-{1 + index % 28:02d}T10:{index % 60:02d}:00"),
    ("State", _constant("finished")),
    ("User", _constant("ada")),
    ("Hostname", lambda _, __, generator: f"node{generator.integers(4)}"),
    ("Runtime", lambda row, _, generator: round(90 * row["depth"] * generator.uniform(0.9, 1.2))),
    ("_step", lambda row, _, __: round(row["params"] / 1e4)),
    ("_timestamp", lambda _, index, __: 1.7e9 + 3571.25 * index),
    ("train/loss", _noisy(0.97, 0.01)),
    ("eval/accuracy", _noisy(-0.1, 0.002)),
    ("val_ppl", lambda row, _, __: float(np.exp(row["loss"]))),
    ("hellaswag", _noisy(-0.05, 0.003)),
    ("grad_norm", lambda _, __, generator: float(generator.uniform(0.2, 0.4))),
    ("tokens_per_sec", lambda row, _, generator: 1e6 / row["depth"] * generator.uniform(0.9, 1.1)),
    ("peak_memory_gb", lambda row, _, __: round(3 + row["depth"] / 7, 2)),
    ("mfu", lambda row, _, generator: 0.5 - row["depth"] / 200 + generator.normal(0, 0.01)),
    ("total_flops", lambda row, _, __: 6 * row["params"] ** 2 * 20),
    ("gpu_type", lambda row, _, __: "H100" if row["depth"] > 8 else "A100"),
    ("git_commit", lambda row, index, __: f"{3 * (index % 3 + row['depth'] // 9):07x}"),
    ("output_dir", lambda row, index, __: f"/runs/{row['depth']}/{index}"),
    ("model_name", lambda row, _, __: f"L{row['depth']}-d{row['d_model']}-{row['group']:.0f}"),
    ("config.dtype", _constant("bfloat16")),
    ("config.vocab_size", _constant(50257)),
    ("config.weight_decay", _constant(0.1)),
    ("head_dim", _constant(64)),
    ("params_embedding", lambda row, _, __: 50257 * row["d_model"]),
    ("per_device_batch_size", lambda row, _, __: 32 if row["depth"] < 9 else 16),
    ("notes", _constant("")),
    ("sweep_id", lambda row, _, __: f"s{row['depth'] % 3}"),
    ("num_workers", lambda _, __, generator: int(generator.integers(2, 5))),
)  # fmt: skip
"""Columns that are no settings or do not vary, as tools add them."""


if __name__ == "__main__":
    main()
