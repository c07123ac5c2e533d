"""Asks an MLflow store for an answer: `python -P -m`, with its address on standard input.

A process of its own, since MLflow takes seconds to import, and a server may let it wait for long.
"""

import json
import sys

from mlflow.exceptions import MlflowException

from fathom.search.study.store_uri import TrackingError, first_line
from fathom.search.tracking import store


def ask(uri: str) -> dict[str, str]:
    """Returns `refusal`, why the address can never be used, and `silence`, why it does not answer.

    Both are empty if the store answers.
    """
    try:
        store.check(uri)
    except TrackingError as error:
        return {"refusal": str(error), "silence": ""}
    try:
        store.connect(uri).search_experiments(max_results=1)
    except (MlflowException, ConnectionError) as error:
        return {"refusal": "", "silence": first_line(error)}
    return {"refusal": "", "silence": ""}


def main() -> None:
    """Asks the store whose address is on standard input, and prints the answer as JSON."""
    store.settle()
    print(json.dumps(ask(sys.stdin.read().strip())))


if __name__ == "__main__":
    main()
