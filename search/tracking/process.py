"""The process that writes to MLflow, at the other end of `tracker.py`: `python -m` with the number
of an inherited socket.

A process of its own, since MLflow takes milliseconds of Python for every write and seconds to
import, both of which would hold up the thread that starts and stops trials.
"""

import logging
import os
import sys
import threading
from multiprocessing.connection import Connection

from fathom.search.study.store_uri import TrackingError
from fathom.search.tracking.messages import (
    CLOSE_SECONDS,
    Answer,
    Checked,
    Close,
    Closed,
    News,
    Opening,
    Said,
)
from fathom.search.tracking.writer import Writer

NICENESS = 5
"""Trials come first where they share a machine."""


class Link(logging.Handler):
    """The search's end of the socket, which also takes what is to be said to the user."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self._sending = threading.Lock()

    def answer(self, message: Answer) -> None:
        """Send one message; nobody may be there to read it."""
        with self._sending:
            self.connection.send(message)

    def emit(self, record: logging.LogRecord) -> None:
        """A warning of the writer's thread."""
        self.answer(Said(record.getMessage()))


def serve(link: Link) -> None:
    """Write one study until the search closes it, or is gone."""
    opening: Opening = link.connection.recv()
    try:
        writer = Writer(
            uri=opening.uri,
            study=opening.study,
            folder=opening.folder,
            config_text=opening.config_text,
            watch=opening.watch,
        )
    except TrackingError as error:
        link.answer(Checked(str(error)))
        return
    link.answer(Checked(""))
    while True:
        message = _next(link.connection)
        if isinstance(message, Close):
            link.answer(Closed(writer.close(message.seconds)))
            return
        for name, item in message.items.items():
            writer.put(name, item)


def _next(connection: Connection) -> News | Close:
    """The next message; of a search that was killed, the last one: no run shall seem to go on."""
    try:
        message: News | Close = connection.recv()
    except (EOFError, ConnectionError):
        return Close(CLOSE_SECONDS)
    return message


def main() -> None:
    """End when the search does, however it ends: what is not written then, the next run writes."""
    os.nice(NICENESS)
    link = Link(Connection(int(sys.argv[1])))
    logger = logging.getLogger("fathom.search.tracking")
    logger.addHandler(link)
    logger.propagate = False
    try:
        serve(link)
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main()
