"""One seed in the study; every other seed follows from it and from what it is for."""

import hashlib


def derive_seed(seed: int, *purpose: object) -> int:
    """A seed below 2**31 that depends on the study's seed and the purpose, and on nothing else."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 33
