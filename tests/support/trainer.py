"""A trainer of a user's own: a loss by a formula, a checkpoint of its step, and ways to fail.

python trainer.py --depth=4 --steps=100 --folder=F --resume=0 [--fail=HOW] [--pause=SECONDS]
"""

import json
import math
import os
import random
import signal
import sys
import time

OTHER_DEFAULTS = {"fail": "", "pause": "0", "learning_rate": "1e-3", "every": "10", "seed": "0"}
OTHER_DEFAULTS |= {"last": "yes", "end": "yes", "saves": "yes"}
"""`last=no`: no evaluation at the end but by `every`; `end=no`: it trains on after its steps;
`saves=no`: SIGTERM ends it at once."""


def main() -> None:
    keys = OTHER_DEFAULTS | dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
    steps, fail, state = int(keys["steps"]), keys["fail"], os.path.join(keys["folder"], "state")
    ended: list[int] = []
    if keys["saves"] == "yes":
        signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    step = 0
    if keys["resume"] == "1":
        with open(state, encoding="ascii") as file:
            step = int(file.read())
    noise = random.Random(f"{keys['seed']} {keys['depth']}").gauss(0, 0.002)
    print(f"a log begins at step {step}", flush=True)
    most = steps if keys["end"] == "yes" else 10 * steps
    while step < most and not ended:
        step += 1
        if step % int(keys["every"]) == 0 or (step == steps and keys["last"] == "yes"):
            print(json.dumps(_line(keys, step, steps, noise)), flush=True)
            time.sleep(float(keys["pause"]))
        if fail and step == steps // 2:
            _fail(fail)
    with open(state, "w", encoding="ascii") as file:
        file.write(str(step))


def _line(keys: dict[str, str], step: int, steps: int, noise: float) -> dict[str, object]:
    by_depth = 0.05 * math.log(int(keys["depth"]) / 4) ** 2
    by_rate = 0.02 * math.log(float(keys["learning_rate"]) / 1e-3) ** 2
    loss = 2 + by_depth + by_rate + noise + 0.5 / math.sqrt(1 + 20 * step / steps)
    return {"step": step, "loss": loss, "half": 0.5}


def _fail(how: str) -> None:
    match how:
        case "crash":
            raise SystemExit("the data are gone")
        case "memory":
            raise SystemExit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
        case "early":
            sys.exit(0)
        case "nan":
            print('{"step": 51, "loss": NaN}', flush=True)
        case "garbage":
            print('{"step": 51, "loss": "low"}', flush=True)
        case "size":
            print('{"parameters": 1}', flush=True)
        case "perplexity":
            print('{"step": 51, "loss": 200.0}', flush=True)
        case "silence":
            signal.pause()
        case "hung":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
