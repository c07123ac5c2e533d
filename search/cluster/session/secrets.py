"""Environment variables with credentials, which workers see only if the study names them."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

COPIED_BY_TUNE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
)
"""Names of variables that Tune copies to every worker unless they are hidden; Ray's agent would log
them."""
SECRET = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|CREDS|_PWD|_PASS|_PAT"
    r"|CONNECTION_STRING)(_|$)",
    re.IGNORECASE,
)
"""Pattern that is found in the name of a variable with a credential."""
LOGIN = re.compile(r"://[^/\s@]*:[^/\s]*@")
"""Pattern that is found in the value of a variable if it is an address with a password."""


def secret_names() -> set[str]:
    """Names of the variables with credentials that this process alone needs; those of Ray and of
    proxies are not among them."""
    return {
        name
        for name, value in os.environ.items()
        if (SECRET.search(name) or LOGIN.search(value))
        and not name.startswith("RAY_")
        and not name.lower().endswith("_proxy")
    }


@contextmanager
def hidden(names: Iterable[str]) -> Iterator[None]:
    """Context in which these variables are removed from this process, so that no process that
    starts meanwhile inherits them."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)
