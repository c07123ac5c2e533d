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
"""Names of variables that Tune would copy to every worker, where Ray's agent would log them."""
SECRET = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|CREDS|_PWD|_PASS|_PAT"
    r"|CONNECTION_STRING)(_|$)",
    re.IGNORECASE,
)
"""Pattern in the name of a variable that holds a credential."""
LOGIN = re.compile(r"://[^/\s@]*:[^/\s]*@")
"""Pattern in the value of a variable that is an address with a password."""


def secret_names() -> set[str]:
    """Names of the variables with credentials that only this process needs; variables of Ray and of
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
