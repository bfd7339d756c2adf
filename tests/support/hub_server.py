"""A hub on this machine, as far as files of one data set are listed and read."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

FILES = {"a.csv": b"text\na\n", "d/b.csv": b"text\nb\n", "d/c.parquet": b"", "README.md": b""}


@contextmanager
def hub() -> Iterator[str]:
    """Its address, for HF_ENDPOINT; the data set is `org/name`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        if found := re.fullmatch(r"/datasets/org/name/resolve/[^/]+/(.*)", path):
            content = FILES[found[1]]
            start, end = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()  # type: ignore[union-attr]
            self._answer(206, content[int(start) : int(end) + 1])
        elif found := re.fullmatch(r"/api/datasets/org/name/tree/[^/]+/?(.*)", path):
            recursive = "recursive=true" in self.path.lower()
            self._answer(200, json.dumps(_listed(found[1], recursive)).encode())
        elif path.startswith("/api/datasets/org/name"):
            self._answer(200, b'{"id": "org/name", "sha": "1", "siblings": []}')
        else:
            self._answer(404, b"{}")

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _listed(directory: str, recursive: bool) -> list[dict[str, object]]:
    start = f"{directory}/" if directory else ""
    found: dict[str, dict[str, object]] = {}
    for name, content in FILES.items():
        if name.startswith(start):
            first, deeper, _ = name[len(start) :].partition("/")
            if deeper:
                found[start + first] = {"type": "directory", "path": start + first, "oid": "0"}
            if recursive or not deeper:
                found[name] = {"type": "file", "path": name, "size": len(content), "oid": "0"}
    return list(found.values())
