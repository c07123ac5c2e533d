"""litgpt's log, read for a study: `examples/litgpt.yaml` names this file as its parser.

litgpt takes a whole model and its folder on its command line, so no wrapper is needed.
"""

import re
from collections.abc import Mapping

EVALUATION = re.compile(r"iter (\d+): val loss ([\d.]+|nan|inf),")
SIZE = re.compile(r"Total parameters: ([\d,]+)")


def parse(line: str) -> Mapping[str, float] | None:
    """The values of a line of litgpt's log, whose `iter` is a step if no gradients accumulate."""
    if found := SIZE.match(line):
        return {"parameters": int(found[1].replace(",", ""))}
    if found := EVALUATION.match(line):
        return {"step": int(found[1]), "loss": float(found[2])}
    return None
