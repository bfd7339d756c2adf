"""What names tell, and that they are told without what is secret in them."""

from __future__ import annotations

import pytest

from attnscan.errors import PairsError
from attnscan.inputs.places.names import FORMATS, PACKED, scheme_of, shown, suffix_in, without_query


def test_every_format_is_known_by_its_suffix_packed_or_not() -> None:
    known = ".csv .tsv .txt .jsonl .ndjson .json .parquet .pq .arrow .feather .xlsx .conllu"
    assert " ".join(FORMATS) == known and " ".join(PACKED) == ".gz .bz2 .zst .xz"
    for suffix in known.split():
        for name in (f"a{suffix}", f"a.b{suffix.upper()}", *(f"a{suffix}{packed}" for packed in PACKED)):
            assert suffix_in(name) == suffix
            assert suffix_in(f"s3://bucket/{name}") == suffix
            assert suffix_in(f"https://host/{name}?download=true&as=a.doc") == suffix


@pytest.mark.parametrize("name", ["a", "a.doc", "a.gz", "a.csv.gz.gz", "a.csv?x=1", "https://host/x?as=a.csv", ".csv"])
def test_what_tells_no_format(name: str) -> None:
    with pytest.raises(PairsError, match="cannot tell the format of"):
        suffix_in(name)


def test_a_path_is_no_uri() -> None:
    for name in ("a.csv", "/data/a.csv", "C:\\a.csv", "data://", "a/s3://b"):
        assert scheme_of(name) in ("", "data") and shown(name) == name
    assert without_query("a?x=1.csv") == "a?x=1.csv"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("https://me:SECRET@host:8/a.csv?sig=SECRET", "https://host:8/a.csv"),
        ("https://SECRET@host/a@b.csv#SECRET", "https://host/a@b.csv"),
        ("s3://AKIA:SEC/RET@bucket/a.csv", "s3://bucket/a.csv"),
        ("s3://bucket/a.csv?access_key=SECRET&secret_key=SECRET", "s3://bucket/a.csv"),
        ("s3://bucket/a@b.csv", "s3://bucket/a@b.csv"),
        ("gs://anonymous@bucket/a?.csv", "gs://bucket/a?.csv"),
        ("hdfs://host:8020/a@b.csv", "hdfs://host:8020/a@b.csv"),
        ("hf://datasets/org/name@~parquet/**/*.parquet", "hf://datasets/org/name@~parquet/**/*.parquet"),
        ("abfs://box@account.dfs.core.windows.net/a.csv", "abfs://box@account.dfs.core.windows.net/a.csv"),
        ("abfss://:SECRET@account.dfs.core.windows.net/a.csv", "abfss://account.dfs.core.windows.net/a.csv"),
    ],
)
def test_names_are_shown_without_secrets(name: str, expected: str) -> None:
    assert shown(name) == expected
