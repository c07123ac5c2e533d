"""nanoGPT's own train.py as the trainer of a study: `examples/nanogpt.yaml` names this file.

python nanogpt.py CHECKOUT SEED FOLDER --key=value ...

The checkout is used as it is. What a study needs and nanoGPT lacks is added around it: the seed of
the trial, a checkpoint that is never half-written, and going on from it.
"""

import os
import re
import runpy
import sys
from collections.abc import Mapping

EVALUATION = re.compile(r"step (\d+): train loss ([\d.]+), val loss ([\d.]+|nan|inf)")


def parse(line: str) -> Mapping[str, float] | None:
    """The values of a line of nanoGPT's log: `train.parser` of the study."""
    found = EVALUATION.match(line)
    if found is None:
        return None
    return {"step": int(found[1]), "train_loss": float(found[2]), "loss": float(found[3])}


def main() -> None:
    """Runs train.py of a checkout in this process."""
    import torch

    checkout, number, folder, *arguments = sys.argv[1:]
    checkout = os.path.abspath(checkout)
    seed_all, save = torch.manual_seed, torch.save

    def save_whole(state: object, path: str) -> None:
        with open(f"{path}.new", "wb") as file:
            save(state, file)
            file.flush()
            os.fsync(file.fileno())  # or a power cut may leave the name with an empty file
        os.replace(f"{path}.new", path)

    torch.manual_seed = lambda seed: seed_all(seed + int(number))
    torch.save = save_whole  # type: ignore[assignment]
    begin = "resume" if os.path.exists(f"{folder}/ckpt.pt") else "scratch"
    sys.argv = ["train.py", f"--out_dir={folder}", f"--init_from={begin}", *arguments]
    sys.path.insert(0, checkout)
    os.chdir(checkout)
    runpy.run_path("train.py", run_name="__main__")


if __name__ == "__main__":
    main()
