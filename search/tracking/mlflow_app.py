"""MLflow's server behind a key; `mlflow server --app-name fathom` finds it by its entry point."""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mlflow.server.fastapi_app import app as mlflow

from fathom.search.tracking.key import ENTRANCE, KEY_VARIABLE, REFUSAL, Key

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def create_app() -> App:
    """Returns MLflow's application, which answers only requests that show the key."""
    return behind(Key(os.environ[KEY_VARIABLE]), mlflow)


def behind(key: Key, app: App) -> App:
    """Returns an ASGI application that lets through to `app` only what shows the key."""

    async def keyed(scope: Message, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan" or key.is_shown(_headers(scope)):
            await app(scope, receive, send)
        elif kind == "http" and key.is_in(scope["query_string"].decode("latin-1")):
            await _answer(send, 200, ENTRANCE, {"set-cookie": key.cookie})
        elif kind == "http":
            await _answer(send, 403, REFUSAL, {})
        else:
            await send({"type": f"{kind}.close"})

    return keyed


def _headers(scope: Message) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _answer(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    plain = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store", **headers}
    encoded = [(name.encode(), value.encode()) for name, value in plain.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": text.encode()})
