"""Environment variables with credentials, which workers see only if the study names them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

COPIED_BY_TUNE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
)
"""What Tune would copy to every worker, where Ray's agent would log the copies."""
SECRETS = (
    *COPIED_BY_TUNE,
    *("AZURE_CLIENT_SECRET", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_CONNECTION_STRING"),
    *("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD"),
)
"""Credentials of clouds and stores, of which this process alone has need."""


@contextmanager
def hidden(names: Iterable[str]) -> Iterator[None]:
    """Context in which these variables are removed from this process, so that no process which
    starts meanwhile inherits them."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)
