"""Stores of files that are written: S3, GCS, Azure and HDFS by pyarrow.

Does not handle: timeouts. A store may try again for minutes.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import httpx2

from attnscan.inputs.places.names import scheme_of, shown, without_query

HEADERS = {"User-Agent": "attnscan", "Accept-Encoding": "identity"}
"""What is said with each request for a file."""
_SECRET = re.compile("key|secret|token|password|sig", re.IGNORECASE)
_SILENCE = 2  # seconds, of which stores take two tries


def file_system(name: str) -> tuple[Any, str]:
    """The pyarrow file system of a name, and its path there."""
    store, path = _store(name)
    return store.fs, path


def reason(error: BaseException, name: str) -> tuple[str, str]:
    """Why a store could not be reached, without what is secret in its name, and what to do."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "check the path"
    words = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    line = " ".join(str(words).splitlines()[0].split())
    line = line.replace(name, shown(name))
    for secret in _secrets(name):
        line = line.replace(secret, "…")
    line = re.sub(r"(\w+://[^\s?'\"]+)\?[^\s'\"]*", r"\1", line)[:200]
    return line, "check the path, and that every machine can read it"


def _store(name: str) -> tuple[Any, str]:
    """The file system of a name, and its path there."""
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
