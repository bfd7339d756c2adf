"""Stores of files: S3, GCS, Azure and HDFS by pyarrow, the Hugging Face Hub by its own library; all seen by fsspec.

Does not handle: timeouts. A store may try again for minutes.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import httpx2

from attnscan.errors import PairsError, needs
from attnscan.inputs.places.names import scheme_of, shown, without_query

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "hf")
WEB = ("http", "https")
WILD = re.compile(r"[*?\[]")
HEADERS = {"User-Agent": "attnscan", "Accept-Encoding": "identity"}
"""What is said with each request for a file."""
_REMEDIES = {
    401: "the address may need a signature, or a user and a password",
    403: "check that you may read it; a signed address may have expired",
}
_CHECK = "check the address and the network"
_SECRET = re.compile("key|secret|token|password|sig", re.IGNORECASE)
_SILENCE = 2  # seconds, of which stores take two tries


def load(name: str) -> None:
    """Import the library of a name's store, which may take seconds. Raises: PairsError if it is not installed."""
    if scheme_of(name) == "hf":
        import huggingface_hub  # noqa: F401

        return
    with needs(f"reading {shown(name)} needs pyarrow", "parquet", PairsError):
        import pyarrow.fs  # noqa: F401


def matching(name: str, is_wanted: Callable[[str], bool]) -> list[str]:
    """The files that a URI names: one, those of a glob, or those of a directory for which `is_wanted` holds.

    Raises: PairsError if it names no bucket; whatever the store raises.
    """
    bare = without_query(name)
    query = name[len(bare) :]
    head = bare
    if wild := WILD.search(bare):
        head = bare[: bare.rfind("/", 0, wild.start())]
        if head.endswith(":/"):
            raise PairsError(f"{shown(name)} has a wildcard in its first part", "name the bucket in full")
    store, root = _store(head + query)
    if not wild:
        info = store.info(root)
        if info["type"] == "file":
            return [name]
    root = root.rstrip("/")
    # Unless it is to raise, fsspec leaves out what cannot be listed; the hub's file system raises by itself
    strictly = {} if scheme_of(name) == "hf" else {"on_error": "raise"}
    if wild:
        infos = store.glob(f"{root}/{bare[len(head) + 1 :]}", detail=True, **strictly)
    else:
        infos = store.find(root, detail=True, **strictly)
    paths = [path for path, info in infos.items() if info["type"] == "file"]
    if not wild:
        paths = [path for path in paths if is_wanted(path) and "/." not in path[len(root) :]]
    if scheme_of(name) == "hf":
        return [f"hf://{path}" for path in sorted(paths)]
    return [f"{head.rstrip('/')}{quote(path[len(root) :])}{query}" for path in sorted(paths)]


def opened(name: str) -> Any:
    """Open a file of a store; it is seekable. Raises: whatever the store raises."""
    store, path = _store(name)
    return store.open(path, "rb")


def file_system(name: str) -> tuple[Any, str]:
    """The pyarrow file system of a name that is not the hub's, and its path there."""
    store, path = _store(name)
    return store.fs, path


def reason(error: BaseException, name: str) -> tuple[str, str]:
    """Why a store or a server could not be read, without what is secret in its name, and what to do."""
    if scheme_of(name) in WEB or (isinstance(error, httpx2.HTTPError) and scheme_of(name) != "hf"):
        return _web_reason(error)
    if isinstance(error, FileNotFoundError) and (scheme_of(name) != "hf" or len(str(error).split()) == 1):
        return "there is no such file", "check the path"
    words = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    line = " ".join(str(words).splitlines()[0].split())
    line = line.replace(name, shown(name))
    for secret in _secrets(name):
        line = line.replace(secret, "…")
    line = re.sub(r"(\w+://[^\s?'\"]+)\?[^\s'\"]*", r"\1", line)[:200]
    if scheme_of(name) == "hf":
        return line, "check the name and the network; what is private needs a token: run `hf auth login`"
    return line, "check the path, and that every machine can read it"


def _web_reason(error: BaseException) -> tuple[str, str]:
    """Why a file could not be read, and what to do."""
    match error:
        case httpx2.HTTPStatusError(response=response):
            code = response.status_code
            remedy = "try again later" if code >= 500 else "check the address"
            return f"the server says {code} {response.reason_phrase}".rstrip(), _REMEDIES.get(code, remedy)
        case httpx2.TooManyRedirects():
            return "the server redirects in a circle", "check the address"
        case httpx2.RemoteProtocolError():
            return "the server stopped before the end of the file", _CHECK
        case httpx2.UnsupportedProtocol(request=request):
            return f"the server redirects to {request.url.scheme}://", "check the address"
    cause: BaseException | None = error
    while cause is not None:  # httpx2 puts its own errors around those of the system
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate is not valid: {cause.verify_message}"
            return why, "check the address, or the time of this machine"
        if words := getattr(cause, "strerror", None):
            return str(words), _CHECK
        cause = cause.__cause__ or cause.__context__
    return (str(error) or type(error).__name__).splitlines()[0][:200], _CHECK


def _store(name: str) -> tuple[Any, str]:
    """The file system of a name, and its path there."""
    if scheme_of(name) == "hf":
        from huggingface_hub import HfFileSystem

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of each new try
        return HfFileSystem(skip_instance_cache=True), name[len("hf://") :].rstrip("/")
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import fs

    scheme, bare = scheme_of(name), without_query(name)
    settings = dict(parse_qsl(name[len(bare) + 1 :]))
    if (
        scheme == "s3"
        and not settings.keys() & {"region", "endpoint_override"}
        and "AWS_ENDPOINT_URL" not in os.environ
    ):
        settings["region"] = _region(shown(name).split("/")[2], _SILENCE)  # pyarrow asks too, ten times
    if scheme in ("gs", "gcs"):
        settings = {"retry_limit_seconds": str(_SILENCE), **settings}
    store, path = fs.FileSystem.from_uri(f"{bare}?{urlencode(settings)}" if settings else bare)
    if isinstance(store, fs.S3FileSystem):
        _, (options,) = store.__reduce__()  # a URI has no room for these
        bounds = {"connect_timeout": _SILENCE, "request_timeout": _SILENCE}
        store = fs.S3FileSystem(**options | bounds, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2))
    return ArrowFSWrapper(store, skip_instance_cache=True), path


def _region(bucket: str, seconds: float) -> str:
    """Where a bucket of S3 is, which the store says of any, and to anybody. Raises: httpx2.HTTPError, OSError."""
    response = httpx2.head(f"https://s3.amazonaws.com/{quote(bucket)}", headers=HEADERS, timeout=seconds)
    if region := response.headers.get("x-amz-bucket-region"):
        return region
    raise OSError(f"there is no bucket {bucket}")


def _secrets(name: str) -> list[str]:
    bare = without_query(name)
    known = [value for key, value in parse_qsl(name[len(bare) + 1 :]) if _SECRET.search(key)]
    if bare != shown(name):
        known += re.split("[:@]", bare.partition("://")[2].rpartition("@")[0])
    return sorted(
        {form for secret in known for form in (secret, unquote(secret), quote(secret, safe="")) if len(form) > 3},
        key=len,
    )
