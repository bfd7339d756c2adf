"""A hub on this machine that serves one model, whose `main` moves on each time it is asked for, and the hub's cache."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

ID = "org/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHOLE = ("config.json", "tokenizer.json", "model.safetensors")


def checkpoint(path: Path, files: tuple[str, ...] = WHOLE) -> Path:
    """A directory with the files of a checkpoint, which nobody loads here."""
    path.mkdir(parents=True, exist_ok=True)
    for name in files:
        (path / name).write_text('{"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 3}')
    return path


def in_cache(cache: Path, hub_id: str, files: tuple[str, ...] = WHOLE) -> Path:
    """A model in the layout of the hub's local cache; returns its snapshot."""
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return checkpoint(repository / "snapshots" / COMMIT, files)


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
    _main_asked: int = 0

    def commit(self, revision: str) -> str | None:
        """What a revision is now; None for one that is not there."""
        if revision != "main":
            return revision if revision in self.commits else None
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
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ModelHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        file = re.fullmatch(f"/{ID}/resolve/([^/]+)/(.+)", path)
        about = re.fullmatch(f"/api/models/{ID}(?:/(revision|tree)/([^/]+))?", path)
        commit = self.hub.commit(file[1] if file else about[2] or "main") if file or about else None
        if path == "/":
            self._answer(200, b"")
        elif commit is None:  # a directory inside the model, among them
            missing = "EntryNotFound" if path.startswith(f"/api/models/{ID}/tree/") else "RepoNotFound"
            self._answer(404, b"{}", {"X-Error-Code": "RevisionNotFound" if file or about else missing})
        elif file:
            self._file(commit, file[2])
        else:
            assert about is not None
            self.hub.requests.append(f"{self.command} {'tree' if about[1] == 'tree' else 'info'} {about[2] or 'main'}")
            files = sorted(self.hub.commits[commit].iterdir())
            listed = [{"type": "file", "path": own.name, "size": own.stat().st_size, "oid": "0"} for own in files]
            info = {"id": ID, "sha": commit, "siblings": [{"rfilename": own.name} for own in files]}
            self._answer(200, json.dumps(listed if about[1] == "tree" else info).encode())

    def _file(self, commit: str, name: str) -> None:
        self.hub.requests.append(f"{self.command} {commit}/{name}")
        file = self.hub.commits[commit] / name
        if not file.is_file():
            return self._answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        content = file.read_bytes()
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self._answer(206 if start else 200, content[start:], {"ETag": etag, "X-Repo-Commit": commit})

    def _answer(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
