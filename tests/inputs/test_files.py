"""Names stand for files, each found once, opened and unpacked, or refused without a secret."""

import bz2
import gzip
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from backports import zstd
from fsspec.compression import compr
from support.pair_files import AB, CD, EF, HEADER, gzipped, pairs_in, parquet, refusal

from attnscan.errors import PairsError
from attnscan.inputs.files import FORMATS, PACKED, files_named, format_of, shown
from attnscan.inputs.read import read_pairs

NAMES = [
    "a.tsv",
    "b.parquet",
    "b/c.csv.gz",
    "b/d/e.jsonl",
    "b/~$d.xlsx",
    "f[1].txt",
    ".hidden/x.tsv",
    "odd/p.doc",
]
TEXT = HEADER.encode() + b"a,b\nc,d\n"
TABLE = parquet({"sentence_a": ["a", "c"], "sentence_b": ["b", "d"]})
PACKS = {
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".bz2": bz2.compress,
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    ".xz": lzma.compress,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Some files, all empty, and links to a file and in a circle."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "d" / "link.tsv").symlink_to(tmp_path / "a.tsv")
    (tmp_path / "b" / "d" / "round").symlink_to(tmp_path)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", ["a.tsv"]),
        ("[!b].tsv", ["a.tsv"]),
        ("f[1].txt", ["f[1].txt"]),
        ("[b]/**/*.gz", ["b/c.csv.gz"]),
        ("*/*/*.json?", ["b/d/e.jsonl"]),
        ("b", ["b/c.csv.gz", "b/d/e.jsonl", "b/d/link.tsv"]),
        ("", ["a.tsv", "b.parquet", "b/c.csv.gz", "b/d/e.jsonl", "b/d/link.tsv", "f[1].txt"]),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_names_stand_for_files(
    directory: Path, name: str, expected: list[str], scheme: str
) -> None:
    assert files_named([f"{scheme}{directory}/{name}"]) == [
        f"{directory}/{file}" for file in expected
    ]


def test_several_names_in_their_order(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    assert files_named(["b/*.gz", "-", "/dev/null", "a.tsv", "a.tsv"]) == [
        "b/c.csv.gz", "-", "/dev/null", "a.tsv", "a.tsv"
    ]  # fmt: skip
    monkeypatch.setattr(
        Path, "iterdir", lambda _: (_ for _ in ()).throw(PermissionError(13, "Denied", "b/d"))
    )
    for names, says in (
        (("-", "a.tsv", "-"), "named twice"),
        ([""], "its name is empty"),
        (["b"], "read 'b/d': Denied"),
    ):
        with pytest.raises(PairsError, match=says):
            files_named(names)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.csv.gz", "cannot read .*: No such file"),
        ("a.tsv/p.csv", "cannot read .*: Not a directory"),
        ("p" * 300 + ".csv", "cannot read .*: File name too long"),
        ("a\0b.csv", "cannot read .*: embedded null byte"),
        ("*.csv", "there is no file of pairs by the name of"),
        ("empty", "there is no file of pairs by the name of"),
        ("odd/p.doc", "cannot tell the format of"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_not_there_is_said_at_once(
    directory: Path, name: str, says: str, scheme: str
) -> None:
    with pytest.raises(PairsError, match=says) as caught:
        read_pairs([f"{scheme}{directory}/{name}"])
    if "format" in says:
        assert all(suffix in caught.value.remedy for suffix in (*FORMATS, *PACKED))


def test_every_format_is_known_by_its_suffix_packed_or_not() -> None:
    for suffix in FORMATS:
        for name in (f"a.b{suffix.upper()}", *(f"a{suffix}{packed}" for packed in PACKED)):
            assert format_of(name) == format_of(f"s3://bucket/{name}") == suffix
            assert format_of(f"https://host/{name}?download=true&as=a.doc") == suffix
    for name in ("a.csv.gz.gz", "a.csv?x=1", "https://host/x?as=a.csv", "https://host/x"):
        with pytest.raises(PairsError, match="cannot tell the format of"):
            format_of(name)


class TestPacked:
    @pytest.fixture(params=PACKS)
    def packing(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_is_unpacked(self, tmp_path: Path, packing: str) -> None:
        parts = b"".join(map(PACKS[packing], (HEADER.encode(), b"a,b\nc,", b"", b"d\ne,f\n")))
        for name, content, pairs in (
            ("p.csv", parts, [AB, CD, EF]),
            ("p.parquet", PACKS[packing](TABLE), [AB, CD]),
        ):
            path = tmp_path / f"{name}{packing.upper()}"
            path.write_bytes(content)
            assert pairs_in(str(path)) == pairs

    def test_what_is_cut_short_or_packed_otherwise(self, tmp_path: Path, packing: str) -> None:
        content = PACKS[packing](b"text\n" + b"the cat sat on the mat\n" * 99)
        others = [pack(b"text\na\n") for other, pack in PACKS.items() if other != packing]
        path = tmp_path / f"p.csv{packing}"
        for wrong in (*(content[:cut] for cut in range(12, len(content))), *others):
            path.write_bytes(wrong)
            assert (
                f"p.csv{packing} is not a whole {PACKED[packing]} file: " in refusal(str(path)).what
            )

    def test_a_name_that_does_not_say_so(self, tmp_path: Path, packing: str) -> None:
        path = tmp_path / "p.csv"
        path.write_bytes(PACKS[packing](b"text\na\n"))
        error = refusal(str(path))
        assert "is no text" in error.what and error.remedy.startswith("unpack it")

    def test_zstandard_is_an_extra(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "p.csv.zst"
        path.write_bytes(PACKS[".zst"](b"text\na\n"))
        monkeypatch.delitem(compr, "zstd")
        assert refusal(str(path)).remedy == "run: pip install 'attnscan[zstd]'"


class TestRemote:
    @pytest.fixture(autouse=True)
    def store(self) -> Iterator[None]:
        """Some files in a store of fsspec's."""
        store = fsspec.filesystem("memory")
        for name, content in (
            ("p.csv", TEXT),
            ("p.csv.gz", gzipped(TEXT)),
            ("p.parquet", TABLE),
            ("cut.csv.gz", b"x"),
        ):
            store.pipe_file(f"/data/{name}", content)
        yield
        store.rm("/data", recursive=True)

    @pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
    def test_files_of_every_kind(self, name: str) -> None:
        assert pairs_in(f"memory://data/{name}") == [AB, CD]

    def test_what_cannot_be_read_is_one_line(self) -> None:
        for name in ("none.csv", "*.csv"):
            assert (
                refusal(f"memory://data/{name}").what
                == f"cannot read memory://data/{name}: nothing was found there"
            )
        assert "is not a whole gzip file" in refusal("memory://data/cut.csv.gz").what
        assert "Protocol not known: nowhere" in refusal("nowhere://host/p.csv").what

    @pytest.mark.parametrize(
        "name", ["http://me:SECRET@host/p.csv?sig=SECRET", "s3://bucket/p.csv"]
    )
    def test_packages_of_stores_are_an_extra(
        self, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        for package in ("aiohttp", "s3fs"):
            monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
        error = refusal(name)
        assert error.remedy == "run: pip install 'attnscan[stores]'" and "SECRET" not in str(error)

    def test_secrets_in_what_a_store_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(name: str, *_: str, **__: str) -> None:
            raise OSError(f"no {name} here\nmore")

        monkeypatch.setattr(fsspec, "open", refuse)
        what = refusal("https://me:SECRET@host/p.csv?sig=SECRET").what
        assert what == "cannot read https://host/p.csv: no https://host/p.csv here"

    def test_what_a_store_says_is_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: str, **__: str) -> None:
            raise OSError("x" * 300)

        monkeypatch.setattr(fsspec, "open", refuse)
        assert refusal("https://host/p.csv").what == f"cannot read https://host/p.csv: {'x' * 200}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("https://me:SECRET@host:8/a.csv?sig=SECRET", "https://host:8/a.csv"),
        ("https://SECRET@host/a@b.csv#SECRET", "https://host/a@b.csv"),
        ("s3://bucket/a@b.csv?secret_key=SECRET", "s3://bucket/a@b.csv"),
        ("hdfs://host:8020/a@b.csv", "hdfs://host:8020/a@b.csv"),
        ("hf://datasets/org/name@~parquet/a.parquet", "hf://datasets/org/name@~parquet/a.parquet"),
        (
            "abfs://box@account.dfs.core.windows.net/a.csv",
            "abfs://box@account.dfs.core.windows.net/a.csv",
        ),
        (
            "abfss://box:SECRET@account.dfs.core.windows.net/a.csv",
            "abfss://account.dfs.core.windows.net/a.csv",
        ),
    ],
)
def test_names_are_shown_without_secrets(name: str, expected: str) -> None:
    assert shown(name) == expected


class TestHiddenFiles:
    def test_patterns_leave_them_out(self, tmp_path: Path) -> None:
        for name in ("p.csv", ".p.csv", "~$p.csv", ".git/q.csv", "d/q.csv", "d/.r.csv"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("text\na\n")
        assert files_named([f"{tmp_path}/*.csv"]) == [f"{tmp_path}/p.csv"]
        assert files_named([f"{tmp_path}/**/*.csv"]) == [f"{tmp_path}/d/q.csv", f"{tmp_path}/p.csv"]

    def test_patterns_that_name_them_have_them(self, tmp_path: Path) -> None:
        (tmp_path / ".p.csv").write_text("text\na\n")
        assert files_named([f"{tmp_path}/.*.csv"]) == [f"{tmp_path}/.p.csv"]
        assert files_named([f"{tmp_path}/.p.csv"]) == [f"{tmp_path}/.p.csv"]
