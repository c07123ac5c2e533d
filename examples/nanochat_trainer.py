"""nanochat's own base_train as the trainer of a study: `examples/nanochat.yaml` names this file.

python nanochat_trainer.py CHECKOUT DEPTH D_MODEL SEED FOLDER --key=value ...

The checkout is used as it is. nanochat takes a width as an aspect ratio, has a fixed seed and is
told from which step to resume; this file turns a trial's values into those.
"""

import math
import os
import re
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

EVALUATION = re.compile(r"Step (\d+) \| Validation bpb: ([\d.]+|nan|inf)")
SIZE = re.compile(r"transformer_matrices\s*: ([\d,]+)")


def parse(line: str) -> Mapping[str, float] | None:
    """The values of a line of nanochat's log; bits per byte become nats per byte."""
    if found := SIZE.match(line):
        return {"parameters": int(found[1].replace(",", ""))}
    if found := EVALUATION.match(line):
        return {"step": int(found[1]), "loss": math.log(2) * float(found[2])}
    return None


def last_step(folder: str) -> int:
    """The step of the last whole checkpoint, whose optimizer is saved last; -1 without one."""
    names = (path.name for path in Path(folder).glob("optim_*_rank0.pt"))
    return max((int(name.split("_")[1]) for name in names), default=-1)


def main() -> None:
    """Runs scripts/base_train.py of a checkout in this process."""
    import torch

    checkout, depth, d_model, number, folder, *arguments = sys.argv[1:]
    seed_all, seed_gpu, save = torch.manual_seed, torch.cuda.manual_seed, torch.save

    def save_whole(state: object, path: str) -> None:
        with open(f"{path}.new", "wb") as file:
            save(state, file)
            file.flush()
            os.fsync(file.fileno())  # or a power cut may leave the name with an empty file
        os.replace(f"{path}.new", path)

    torch.manual_seed = lambda seed: seed_all(seed + int(number))
    torch.cuda.manual_seed = lambda seed: seed_gpu(seed + int(number))
    torch.save = save_whole  # type: ignore[assignment]
    sys.argv = [
        "base_train",
        f"--depth={depth}",
        # Rounded up to whole heads there, which gives `d_model` again up to a depth of `head_dim`.
        f"--aspect-ratio={int(d_model) // int(depth)}",
        f"--model-tag={folder}",  # as an absolute path it is the folder of the checkpoints
        f"--resume-from-step={last_step(folder)}",
        *arguments,
    ]
    checkout = os.path.abspath(checkout)
    sys.path.insert(0, checkout)
    os.chdir(checkout)
    runpy.run_module("scripts.base_train", run_name="__main__")


if __name__ == "__main__":
    main()
