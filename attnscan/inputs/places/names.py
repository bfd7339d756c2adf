"""Parse the name of a file: its format, its compression, its scheme, the open descriptor that it stands for."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from attnscan.errors import PairsError

STDIN = "-"

TEXT = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather")
SHEETS = (".xlsx",)
TREEBANKS = (".conllu",)
FORMATS = (*TEXT, *PARQUET, *ARROW, *SHEETS, *TREEBANKS)
"""The formats, by the suffixes of their files."""
PACKED = (".gz", ".bz2", ".zst", ".xz")
"""Suffixes of compressed files, which may follow these."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?#]*)")
_SETTINGS = re.compile(r"\?\w+=", re.ASCII)  # of a store, which a `?` that is a wildcard does not look like
_MAX_LINKS = 40  # as many as the system itself follows
_OPEN_FILES = re.compile(r"/proc/\d+(/task/\d+)?/fd")


def scheme_of(name: str) -> str:
    """The scheme of a URI, in lower case; empty for a path.

    >>> scheme_of("S3://bucket/a.csv"), scheme_of("data/a.csv")
    ('s3', '')
    """
    uri = _URI.match(name)
    return uri[1].lower() if uri else ""


def without_query(name: str) -> str:
    """A URI without its query and fragment; any other name unchanged.

    >>> without_query("https://host/a.csv?download=true#top"), without_query("s3://bucket/?.csv?region=x")
    ('https://host/a.csv', 's3://bucket/?.csv')
    """
    scheme = scheme_of(name)
    if scheme in ("http", "https"):
        return re.split("[?#]", name, maxsplit=1)[0]
    return _SETTINGS.split(name, maxsplit=1)[0] if scheme else name


def shown(name: str) -> str:
    """A name without users, passwords and signatures, for messages and results.

    >>> shown("s3://key:secret@bucket/a.csv?region=x"), shown("https://host/a.csv?X-Amz-Signature=1")
    ('s3://bucket/a.csv', 'https://host/a.csv')
    >>> shown("s3://key:sec/ret@bucket/a.csv"), shown("abfs://container:key@account.dfs.core.windows.net/a.csv")
    ('s3://bucket/a.csv', 'abfs://container@account.dfs.core.windows.net/a.csv')
    """
    scheme, bare = scheme_of(name), without_query(name)
    if not scheme or scheme == "hf":  # there, what stands before @ is a repository
        return bare
    start, rest = bare.split("://", 1)
    host = rest.partition("/")[0]
    before, at, behind = host.rpartition("@")
    if not at and re.search(r":.*\D", host):  # no port: a password with a slash
        before, at, behind = rest.rpartition("@")
    else:
        behind = rest[len(before) + len(at) :]
    container = before.partition(":")[0] if scheme.startswith("abfs") else ""
    return f"{start}://{f'{container}@' if container else ''}{behind}"


def packing_in(name: str) -> str:
    """The suffix of a name that says how the file is compressed; empty if none does.

    >>> packing_in("a.csv.GZ"), packing_in("https://host/a.csv?as=a.gz")
    ('.gz', '')
    """
    suffix = PurePosixPath(without_query(name).lower()).suffix
    return suffix if suffix in PACKED else ""


def suffix_in(name: str) -> str:
    """The suffix of a name that says its format, without that of its compression.

    >>> suffix_in("data/Pairs.CSV.gz"), suffix_in("https://host/pairs.parquet?download=true")
    ('.csv', '.parquet')

    Raises: PairsError if it tells none.
    """
    path = PurePosixPath(without_query(name).lower())
    inner = path.with_suffix("") if packing_in(name) else path
    if inner.suffix in FORMATS:
        return inner.suffix
    raise PairsError(
        f"cannot tell the format of {shown(name)} from its suffix",
        f"use one of {' '.join(FORMATS)}, with {' '.join(PACKED)} behind it or without",
    )


def open_file(path: Path) -> Path | None:
    """The entry among a process's open files that a path stands for, such as `/proc/12/fd/0`; None for all others.

    `/dev/fd/7` is a link to the file that descriptor 7 was opened on, and so does not stand for itself.
    Raises: OSError, RuntimeError if it cannot be looked at.
    """
    for _ in range(_MAX_LINKS):
        parent = os.path.realpath(path.parent)
        is_listed = _OPEN_FILES.fullmatch(parent) or parent == os.path.realpath("/dev/fd")  # the second without /proc
        if is_listed and path.name.isdecimal():
            return Path(parent, path.name)
        if not path.is_symlink():
            return None
        path = Path(parent, path.readlink())
    return None
