"""MLflow's server behind a key; `mlflow server --app-name fathom` finds it by its entry point."""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mlflow.server.fastapi_app import app as mlflow

from fathom.search.tracking.stores.key import KEY_VARIABLE, REFUSAL, UNSEEN, Key

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def create_app() -> App:
    """Returns MLflow's application, which answers only requests that show the key."""
    return behind(Key(os.environ[KEY_VARIABLE]), mlflow)


def behind(key: Key, app: App) -> App:
    """Returns an ASGI application that passes only requests with the key to `app`, and hides the
    key from `app`."""

    async def keyed(scope: Message, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        path = key.path_behind(scope.get("path", ""))
        if kind == "lifespan" or key.is_shown(_headers(scope)):
            await app(scope, receive, send)
        elif path is not None:
            raw = scope.get("raw_path", b"").removeprefix(f"/{key.secret}".encode())
            await app({**scope, "path": path, "raw_path": raw}, receive, send)
        elif kind == "http" and key.is_in(scope["query_string"].decode("latin-1")):
            await _answer(send, 200, key.entrance)
        elif kind == "http":
            await _answer(send, 403, REFUSAL)
        else:
            await send({"type": f"{kind}.close"})

    return keyed


def _headers(scope: Message) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _answer(send: Send, status: int, text: str) -> None:
    plain = {"content-type": "text/html; charset=utf-8", **UNSEEN}
    encoded = [(name.encode(), value.encode()) for name, value in plain.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": text.encode()})
