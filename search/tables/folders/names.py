"""Reads settings of a run from names of files and folders: `d8_w512_seed1`, `depth=8,lr=0.01`."""

import re
from collections.abc import Iterable

from fathom.search.tables.columns.columns import SCALED, meaning
from fathom.search.tables.folders.logged import NAMED, VAGUE

NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?"
PAIR = re.compile(
    rf"(?P<key>[a-z][\w.]*)=(?P<value>{NUMBER}[kmbt]?(?=[_,;&)\s-]|$)"
    r"|[^,;&=\s]+?(?=[_-][a-z][\w.]*=|[,;&\s]|$))",
    re.IGNORECASE,
)
"""Pattern of a setting such as `lr=0.01`; another one may follow after `_`."""
SHORT = re.compile(
    rf"(?<![a-z0-9.=])(?:(?P<key>[a-z]+(?:_[a-z]+)*)[-_]?(?P<value>{NUMBER})(?P<unit>[kmb]?)"
    r"|(?P<before>[0-9]+)(?P<after>l|layers?|d|w))(?![a-z0-9.=])",
    re.IGNORECASE,
)
"""Pattern of a short setting such as `d8`, `seed_1`, `lr1e-3`, `params124M` or `12L`."""
CROSSED = re.compile(r"(?<![a-z0-9.=])([0-9]+)x([0-9]+)(?![a-z0-9.=])", re.IGNORECASE)
"""Pattern of `12x768`, depth and width in either order, or of `5x4` beside a width: layers, and how
often they are applied."""
ABBREVIATED = {
    "l": "depth", "layer": "depth", "w": "d_model", "s": "seed", "sd": "seed", "tok": "tokens",
    "bs": "batch_size", "batch": "batch_size", "wd": "weight_decay", "heads": "n_heads",
    "ctx": "context",
}  # fmt: skip
"""Short name -> name of a setting. `d` is the depth, or the width if it is above `DEEPEST` or
stands beside a number of layers."""
DEEPEST = 200
"""Largest number after `d` that may be a depth; d512 is a width."""
NARROWEST = 64
"""Least width in `12x768`; the other number must be smaller."""


def settings_in(parts: Iterable[str]) -> dict[str, str]:
    """The settings in the names of a run's folders and file.

    >>> settings_in(["sweep", "d8_w512_seed1"])
    {'depth': '8', 'd_model': '512', 'seed': '1'}
    >>> settings_in(["train_3_depth=8,lr=0.01_2026-11-01"])
    {'depth': '8', 'learning_rate': '0.01'}
    >>> settings_in(["shared_5x4_d512"])
    {'d_model': '512', 'depth': '5', 'loops': '4'}
    """
    found: dict[str, str] = {}
    for part in parts:
        found |= {_key(match["key"]): match["value"] for match in PAIR.finditer(part)}
        found |= _short(PAIR.sub(" ", part))
    return found


def _short(part: str) -> dict[str, str]:
    """The settings in `part` that have no `=` between key and number, such as d8."""
    found: dict[str, str] = {}
    for match in SHORT.finditer(part):
        key = (match["key"] or match["after"]).lower()
        value, unit = match["value"] or match["before"], match["unit"] or ""
        ours = "d" if key == "d" or key.endswith("_d") else _known(key)
        if ours and (not unit or ours in SCALED):
            found[ours] = value + unit
    crossed = CROSSED.search(part)
    layers, width = sorted(crossed.groups(), key=int) if crossed else ("0", "0")
    if int(width) >= NARROWEST > int(layers):
        found = {"depth": layers, "d_model": width} | found
    is_width = "depth" in found or float(found.get("d", 0)) > DEEPEST
    named = {("d_model" if is_width else "depth") if k == "d" else k: v for k, v in found.items()}
    if crossed and "d_model" in named and "depth" not in named:
        named |= {"depth": crossed[1], "loops": crossed[2]}
    return named


def _known(key: str) -> str:
    """Fathom's name for the longest known end of a key, such as `lr` in `peak_lr`; empty if none is
    known."""
    words = key.split("_")
    for start in range(len(words)):
        end = "_".join(words[start:])
        ours = ABBREVIATED.get(end) or (meaning(end) if end not in VAGUE else None)
        if ours in NAMED or ours in ABBREVIATED.values():
            return str(ours)
    return ""


def _key(key: str) -> str:
    """Fathom's name for a key before `=`, or the key without the numbers and words in front of
    it."""
    words = key.split("_")
    last = max((place for place, word in enumerate(words[:-1]) if word[:1].isdigit()), default=-1)
    plain = "_".join(words[last + 1 :])
    return _known(plain.lower().rpartition(".")[2]) or ("depth" if plain == "d" else plain)
