"""A web server on this machine that serves one file, well or badly, by the first part of the path."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Paths: `/ok/…`, `/403/…` and other numbers, `/silent/…`, `/short/…`, `/stuck/…`, `/loop/…`,
    `/slow/…`, `/chunked/…`, `/ftp/…`, `/to/SCHEME/HOST/…` (a redirect).
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = b""
        self.asked: list[tuple[str, str | None]] = []
        """Of each request the path, and who asks."""
        self.end = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(content: bytes = b"") -> Iterator[Server]:
    """A server, until it is left."""
    server = Server()
    server.content = content
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end.set()
        server.shutdown()
        server.server_close()


@contextmanager
def silence() -> Iterator[str]:
    """The host and port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def nobody() -> str:
    """A host and port where no server is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = self.server.content
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        mode = self.path.split("/")[1]
        if mode == "silent":
            self.server.end.wait()
        elif mode.isdecimal():
            self._head(int(mode), 0)
        elif mode == "loop":
            self._head(302, 0, Location=self.path)
        elif mode == "ftp":
            self._head(302, 0, Location="ftp://127.0.0.1/a.csv")
        elif mode == "to":
            scheme, host, rest = self.path.split("/", 4)[2:]
            self._head(302, 0, Location=f"{scheme}://{host}/{rest}")
        elif mode == "chunked":
            self._head(200, None, **{"Transfer-Encoding": "chunked"})
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content))
        elif mode == "slow":
            self._head(200, len(content))
            for at in range(0, len(content), 64):
                self.wfile.write(content[at : at + 64])
                time.sleep(0.005)
        else:
            self._head(200, len(content))
            half = len(content) // 2 if mode in ("short", "stuck") else len(content)
            self.wfile.write(content[:half])
            if mode == "stuck":
                self.wfile.flush()
                self.server.end.wait()
        self.close_connection = True

    def _head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
