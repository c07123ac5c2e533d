"""Buys trainings until the best depth is settled or the money is gone: docs/programs.md.

`python examples/buy_trainings.py runs.csv 4e17` spends 4e17 FLOPs at most. It knows the schema of
`fathom analyse --json` and nothing else of Fathom; `train` has simulated losses, best at 9 layers.
"""

import json
import subprocess
import sys
from math import log
from pathlib import Path
from random import Random
from typing import Any


def train(depth: int, seed: int) -> float:
    return 3 + 0.05 * log(depth / 9) ** 2 + Random(f"{depth} {seed}").gauss(0, 0.003)


def buy(table: Path, money: float) -> dict[str, Any]:
    ask = [sys.executable, "-m", "fathom", "analyse", str(table), "--json"]
    rows = [f"{depth},1e7,2e8,0,{train(depth, 0)}" for depth in (4, 8)]
    while True:
        table.write_text("\n".join(["depth,params,tokens,seed,loss", *rows]) + "\n")
        [answer] = json.loads(subprocess.check_output(ask))["answers"]
        affordable = [each for each in answer["next"] if each["price"]["flops"] <= money]
        if answer["verdict"]["settled"] or not affordable:
            return {**answer, "money_left": money, "trainings": len(rows)}
        training = affordable[0]
        depth, seed = training["shape"]["depth"], training["seed"]
        rows.append(f"{depth},1e7,{training['tokens']},{seed},{train(depth, seed)}")
        money -= training["price"]["flops"]


if __name__ == "__main__":
    found = buy(Path(sys.argv[1]), float(sys.argv[2]))
    print(found["verdict"]["reason"], f"({found['trainings']} trainings)", sep="\n")
