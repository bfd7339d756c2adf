"""The server's thread, from its socket to its end. It listens on 127.0.0.1 alone."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from attnscan.errors import OutputError
from attnscan.server.guard import SECONDS, App

_PATIENCE = 0.3  # seconds for connections when the server is to end


def listening(port: int | None) -> socket.socket:
    """A socket on this machine's own address, at a port or at any that is free. Raises: OutputError if it is taken."""
    own = socket.socket()
    try:
        if os.name == "posix":  # else a port could not be had again for a minute; elsewhere it means something worse
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(("127.0.0.1", port or 0))
        own.listen(128)
    except OSError as error:
        own.close()
        remedy = "name another by --port, or leave it out and have a free one"
        if error.errno in (errno.EACCES, errno.EPERM):
            raise OutputError(f"port {port} is the system's own", remedy) from None
        if error.errno == errno.EADDRINUSE:
            raise OutputError(f"port {port} is taken, and nothing can be served there", remedy) from None
        raise OutputError(f"nothing can be served here: {error.strerror or error}", remedy) from None
    return own


@contextmanager
def served(app: App, own: socket.socket) -> Iterator[threading.Event]:
    """Serve, in a thread of its own; at the end connections are closed, whatever they wait for.

    Yields what is set if the thread ends by itself.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what strangers send is no news
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=16 << 10,
        timeout_graceful_shutdown=0,
    )
    server, ended = uvicorn.Server(config), threading.Event()

    def run() -> None:
        try:
            server.run([own])
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True, name="attnscan-server").start()
    try:
        yield ended
    finally:
        server.should_exit = server.force_exit = True
        ended.wait(_PATIENCE)


class _Protocol(H11Protocol):
    """Closes a connection that has begun no request between two looks at it: uvicorn waits for one for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self.loop.call_later(SECONDS, self._look, None)

    def _look(self, before: Any) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(SECONDS, self._look, self.cycle)
