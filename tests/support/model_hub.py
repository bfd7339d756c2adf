"""A hub on this machine that serves one model, whose `main` moves on each time it is asked for."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

ID = "org/tiny"


@dataclass
class ModelHub:
    """Its commits are directories of files."""

    commits: Mapping[str, Path]
    mains: Sequence[str]
    """Which of them `main` is when it is asked for the first time, the second, ...; then it stays."""
    address: str = ""
    """For HF_ENDPOINT."""
    requests: list[str] = field(default_factory=list)
    """All that came, as `GET commit/file` and the like."""
    before: Callable[[str], None] = lambda _: None
    """Told of each of them before it is answered."""
    _main_asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def came(self, request: str) -> None:
        """Keep it, and let others wait for others."""
        self.requests.append(request)
        self.before(request)

    def commit(self, revision: str) -> str | None:
        """What a revision is now; None for one that is not there."""
        if revision != "main":
            return revision if revision in self.commits else None
        with self._lock:
            self._main_asked += 1
            return self.mains[min(self._main_asked, len(self.mains)) - 1]

    def fetched(self, name: str) -> int:
        """How often a file's content was sent, of whatever commit."""
        return sum(each.startswith("GET ") and each.endswith(f"/{name}") for each in self.requests)

    @property
    def commits_read(self) -> set[str]:
        """The commits whose files were asked for."""
        return {each.split()[1].partition("/")[0] for each in self.requests if "/" in each}


@contextmanager
def model_hub(commits: Mapping[str, Path], mains: Sequence[str]) -> Iterator[ModelHub]:
    """A hub with the model ID, as long as it is wanted."""
    hub = ModelHub(commits, mains)

    class Handler(_Handler):
        serving = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    serving: ModelHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        if path == "/":
            self._answer(200, b"")
        elif found := re.fullmatch(f"/{ID}/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[2])
        elif found := re.fullmatch(f"/api/models/{ID}(?:/(revision|tree)/([^/]+))?", path):
            self._about(found[1] == "tree", found[2] or "main")
        else:  # a directory inside the model, among them
            self._refuse("EntryNotFound" if path.startswith(f"/api/models/{ID}/tree/") else "RepoNotFound")

    def _file(self, revision: str, name: str) -> None:
        commit = self.serving.commit(revision)
        if commit is None:
            return self._refuse("RevisionNotFound")
        self.serving.came(f"{self.command} {commit}/{name}")
        file = self.serving.commits[commit] / name
        if not file.is_file():
            return self._refuse("EntryNotFound")
        content = file.read_bytes()
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self._answer(206 if start else 200, content[start:], {"ETag": etag, "X-Repo-Commit": commit})

    def _about(self, tree: bool, revision: str) -> None:
        commit = self.serving.commit(revision)
        if commit is None:
            return self._refuse("RevisionNotFound")
        self.serving.came(f"{self.command} {'tree' if tree else 'info'} {revision}")
        files = sorted(self.serving.commits[commit].iterdir())
        siblings = [{"rfilename": file.name} for file in files]
        listed = [{"type": "file", "path": file.name, "size": file.stat().st_size, "oid": "0"} for file in files]
        about = {"id": ID, "sha": commit, "siblings": siblings}
        return self._answer(200, json.dumps(listed if tree else about).encode())

    def _refuse(self, code: str) -> None:
        self._answer(404, b"{}", {"X-Error-Code": code})

    def _answer(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
