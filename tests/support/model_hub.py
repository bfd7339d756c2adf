"""A hub on this machine that serves one model, whose `main` moves on each time it is asked for, and
the hub's cache.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from attnscan.server.app import listening, served

ID = "org/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHOLE = ("config.json", "tokenizer.json", "model.safetensors")


def checkpoint(path: Path, files: tuple[str, ...] = WHOLE) -> Path:
    """A directory with the files of a checkpoint, which nobody loads here."""
    path.mkdir(parents=True, exist_ok=True)
    for name in files:
        (path / name).write_text(
            '{"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 3}'
        )
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
    mains: Sequence[
        str
    ]  # which of them `main` is when it is asked for the first time, the second, ...; then it stays
    address: str = ""  # for HF_ENDPOINT
    requests: list[str] = field(
        default_factory=list
    )  # all that came, as `GET commit/file` and the like
    _main_requests: int = 0

    def commit(self, revision: str) -> str | None:
        """What a revision is now; None for one that is not there."""
        if revision != "main":
            return revision if revision in self.commits else None
        self._main_requests += 1
        return self.mains[min(self._main_requests, len(self.mains)) - 1]

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

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        commit = hub.commit(request.path_params["revision"])
        if commit is None:
            return _missing("RevisionNotFound")
        hub.requests.append(f"{request.method} {commit}/{name}")
        if not (path := hub.commits[commit] / name).is_file():
            return _missing("EntryNotFound")
        etag = f'"{hashlib.sha1(path.read_bytes()).hexdigest()}"'
        return FileResponse(path, headers={"ETag": etag, "X-Repo-Commit": commit})

    def about(request: Request) -> Response:
        kind = request.path_params.get("kind")
        revision = request.path_params.get("revision")
        if (commit := hub.commit(revision or "main")) is None:
            return _missing("RevisionNotFound")
        hub.requests.append(
            f"{request.method} {'tree' if kind == 'tree' else 'info'} {revision or 'main'}"
        )
        root = hub.commits[commit]
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        names = [path.relative_to(root).as_posix() for path in files]
        if kind == "tree":
            return JSONResponse(
                [
                    {"type": "file", "path": name, "size": path.stat().st_size, "oid": "0"}
                    for name, path in zip(names, files, strict=True)
                ]
            )
        return JSONResponse(
            {"id": ID, "sha": commit, "siblings": [{"rfilename": name} for name in names]}
        )

    routes = [
        Route("/", lambda _: Response()),
        Route(f"/{ID}/resolve/{{revision}}/{{name:path}}", file),
        Route(f"/api/models/{ID}", about),
        Route(f"/api/models/{ID}/{{kind}}/{{revision}}", about),
        Route(f"/api/models/{ID}/tree/{{directory:path}}", lambda _: _missing("EntryNotFound")),
    ]
    app = Starlette(routes=routes, exception_handlers={404: lambda *_: _missing("RepoNotFound")})
    with listening(None) as listener, served(app, listener):
        hub.address = "http://{}:{}".format(*listener.getsockname())
        yield hub


def _missing(code: str) -> Response:
    return JSONResponse({}, 404, {"X-Error-Code": code})
