"""Asks whether an MLflow store answers: run as `python -P -m`, with its address on standard input,
and a second line if the user named the store.

This is a separate process, since MLflow takes seconds to import, and a server may take long to
answer.
"""

import json
import sys

from mlflow.exceptions import MlflowException

from fathom.search.study.store_uri import TrackingError, first_line
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.artifacts import strange_store


def ask(uri: str, *, trusted: bool) -> dict[str, str]:
    """Returns what is wrong, with the reason: `refusal` if the address can never be used, `silence`
    if it does not answer, `strange` if it must not be written to.

    Empty if the store answers.
    """
    if not trusted and (problem := strange_store(uri)):
        return {"strange": problem}
    try:
        store.check(uri)
    except TrackingError as error:
        return {"refusal": str(error)}
    try:
        store.connect(uri).search_experiments(max_results=1)
    except (MlflowException, ConnectionError) as error:
        return {"silence": first_line(error)}
    return {}


def main() -> None:
    """Asks the store whose address is on standard input, and prints the answer as JSON."""
    store.settle()
    uri, *named = sys.stdin.read().splitlines()
    print(json.dumps(ask(uri.strip(), trusted=bool(named))))


if __name__ == "__main__":
    main()
