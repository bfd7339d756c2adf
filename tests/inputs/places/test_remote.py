"""What is on a network is read like what is here, or is one line within seconds, which shows no secret."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from hub_server import hub
from pair_files import AB, CD, HEADER, gzipped, pairs_in, parquet, refusal
from web_server import Server, nobody, serving, silence

from attnscan.errors import PairsError
from attnscan.inputs.pairs import read_pairs
from attnscan.inputs.places import remote, stores
from attnscan.inputs.places.files import files_named
from attnscan.inputs.places.names import shown
from attnscan.scan.cluster.blocks import BlockFiles, FilePart

# A thread that was left to itself drops its socket when it may
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

TEXT = HEADER.encode() + b"a,b\nc,d\n"
TABLE = parquet({"sentence_a": ["a", "c"], "x": [str(number) for number in range(2)], "sentence_b": ["b", "d"]})
IMPATIENT = 0.3
KEYS = "s3://AKIAKEY:SECRET%2FSECRET@bucket"


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(remote, "PATIENCE", 60.0)  # whoever answers may take its time on a busy machine


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(TEXT) as started:
        yield started


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who never answer."""
    monkeypatch.setattr(remote, "PATIENCE", IMPATIENT)


class TestWeb:
    @pytest.mark.parametrize("mode", ["ok", "chunked", "slow"])
    def test_text_and_tables(self, server: Server, mode: str) -> None:
        assert pairs_in(f"{server.url}/{mode}/p.csv?download=true") == [AB, CD]
        server.content = gzipped(TEXT)
        assert pairs_in(f"{server.url}/{mode}/p.csv.gz#top") == [AB, CD]
        server.content = TABLE
        assert pairs_in(f"{server.url}/{mode}/p.parquet?x=a.csv") == [AB, CD]

    def test_a_user_is_told_to_the_host_that_was_named_alone(self, server: Server) -> None:
        with serving(TEXT) as other:
            (file,) = files_named([f"http://me:SEC%40RET@{server.url[7:]}/to/http/{other.url[7:]}/ok/p.csv"])
            assert [record.place.file for record in read_pairs([file])] == [shown(file)] * 2
            assert {who for _, who in server.asked} == {"Basic bWU6U0VDQFJFVA=="}
            assert {who for _, who in other.asked} == {None}

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("403", "the server says 403 Forbidden; check that you may read it; a signed address may have expired"),
            ("404", "the server says 404 Not Found; check the address"),
            ("500", "the server says 500 Internal Server Error; try again later"),
            ("loop", "the server redirects in a circle"),
            ("ftp", "the server redirects to ftp://"),
            ("silent", "timed out after|does not answer"),
        ],
    )
    def test_what_is_refused_is_said_at_once(
        self, server: Server, path: str, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if path == "silent":
            monkeypatch.setattr(remote, "PATIENCE", IMPATIENT)
        name = f"http://me:SECRET@{server.url[7:]}/{path}/p.csv?sig=SECRET"
        with pytest.raises(PairsError, match=f"cannot read {server.url}/{path}/p.csv: .*({says})") as caught:
            read_pairs([name])
        assert "SECRET" not in str(caught.value)

    def test_nobody_there(self) -> None:
        for name, says in (
            (f"http://{nobody()}/p.csv", "Connection refused"),
            ("http://host:port/p.csv", "port"),
        ):
            with pytest.raises(PairsError, match=f"cannot read .*p.csv: .*({says})"):
                read_pairs([name])

    def test_no_tls(self, server: Server) -> None:
        with pytest.raises(PairsError, match=r"cannot read https://.*SSL"):
            read_pairs([f"https://{server.url[7:]}/p.csv"])

    def test_a_host_that_no_name_server_knows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No name server is asked: some networks know every name, or stay silent."""

        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(PairsError, match=r"cannot read .*p.csv: .*not known"):
            read_pairs(["https://no-such-host.invalid/p.csv"])

    @pytest.mark.parametrize(
        ("mode", "says"), [("short", "the server stopped before the end of the file"), ("stuck", "timed out")]
    )
    @pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
    def test_a_server_that_stops_in_the_middle(
        self, server: Server, mode: str, says: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if mode == "stuck":
            monkeypatch.setattr(remote, "PATIENCE", IMPATIENT)
        server.content = {"p.csv": TEXT, "p.csv.gz": gzipped(TEXT), "p.parquet": TABLE}[name]
        error = refusal(f"{server.url}/{mode}/{name}", skip=True)
        assert error.what.startswith(f"cannot read {server.url}/{mode}/{name}: ") and says in error.what

    def test_the_web_lists_nothing(self) -> None:
        for name in (
            "https://host/",
            "http:///p.csv",
            "https://host",
            "https://host/data/*.csv",
            "http://host/[ab].csv",
        ):
            with pytest.raises(PairsError, match=r"is not one file, and https?:// lists none; name each file in full"):
                read_pairs([name])

    def test_workers_of_a_cluster_read_it_too(self, server: Server) -> None:
        url = f"http://me:SECRET@{server.url[7:]}/ok/p.csv"
        (block,) = BlockFiles((url,)).blocks(FilePart(0, url))
        assert [record.pair for record in block.records] == [AB, CD]
        assert {record.place.file for record in block.records} == {f"{server.url}/ok/p.csv"}
        (block,) = BlockFiles(()).blocks(FilePart(0, url.replace("/ok/", "/404/")))
        assert "404 Not Found" in str(block.error) and "SECRET" not in str(block.error)


class TestStores:
    def test_an_unknown_scheme(self) -> None:
        with pytest.raises(PairsError, match=r"cannot read ftp://host/p.csv: ftp:// is not known; use one of s3://"):
            read_pairs(["ftp://me:SECRET@host/p.csv"])

    def test_a_bucket_is_named_in_full(self) -> None:
        with pytest.raises(PairsError, match="has a wildcard in its first part; name the bucket in full"):
            read_pairs(["s3://*/p.csv?endpoint_override=localhost"])

    @pytest.mark.parametrize("name", ["p.csv", "**/*.csv", ""])
    def test_nobody_there(self, name: str) -> None:
        with pytest.raises(PairsError, match=rf"cannot read s3://bucket/{name.replace('*', '[*]')}: ") as caught:
            read_pairs([f"{KEYS}/{name}?endpoint_override={nobody()}&scheme=http&region=x"])
        assert "SECRET" not in str(caught.value) and "AKIA" not in str(caught.value)

    @pytest.mark.usefixtures("impatient")
    def test_a_silent_store(self) -> None:
        with silence() as host, pytest.raises(PairsError, match=r"cannot read .*p.csv: timed out"):
            read_pairs([f"{KEYS}/p.csv?endpoint_override={host}&scheme=http&region=x"])

    def test_secrets_in_what_a_store_says(self) -> None:
        name = f"{KEYS}/p.csv?secret_key=HIDDEN&region=x"
        error = OSError(f"no {name} by AKIAKEY and SECRET/SECRET at https://host/p?sig=HIDDEN&a=b or HIDDEN in x\nmore")
        why, _ = stores.reason(error, name)
        assert why == "no s3://bucket/p.csv by … and … at https://host/p or … in x"

    def test_names_of_a_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A store that is a directory here, whose paths begin with the bucket's name."""
        from pyarrow import fs

        for name in ("b/1.csv", "b/2 %.csv", "b/d/3.csv.gz", "b/.x/4.csv", "b/notes.md"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(gzipped(TEXT) if name.endswith("gz") else TEXT)

        def of(uri: str) -> tuple[object, str]:
            assert uri.startswith("abfs://b@host") and uri.endswith("?account=x")
            path = unquote(uri.removesuffix("?account=x").removeprefix("abfs://b@host").rstrip("/"))
            return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), f"b{path}"

        monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=of))
        for name, expected in (
            ("", ["1.csv", "2%20%25.csv", "d/3.csv.gz"]),
            ("*.csv", ["1.csv", "2%20%25.csv"]),
            ("**/*.gz", ["d/3.csv.gz"]),
            ("?.csv", ["1.csv"]),
            ("1.csv", ["1.csv"]),
        ):
            files = files_named([f"abfs://b@host/{name}?account=x"])
            assert files == [f"abfs://b@host/{file}?account=x" for file in expected]
            assert pairs_in(*files) == [AB, CD] * len(expected)
        with pytest.raises(PairsError, match=r"cannot read abfs://b@host/none/[*].csv: there is no such file"):
            files_named(["abfs://b@host/none/*.csv?account=x"])


HUB = """
import sys
from attnscan.errors import PairsError
from attnscan.inputs.pairs import read_pairs
from attnscan.inputs.places.files import files_named

root = "hf://datasets/org/name"
for name in ("/a.csv", "/**/*.csv", "@~parquet/d/*.csv", "", "/none.csv", "/none/*.csv"):
    try:
        files = files_named([root + name])
        read = [record.pair.a for record in read_pairs(files[:1])]
        print(*(file.removeprefix("hf://") for file in files), "|", *read)
    except PairsError as error:
        print(error)
"""


def test_the_hub() -> None:
    with hub() as address:
        environ = {
            **os.environ,
            "no_proxy": "*",
            "HF_ENDPOINT": address,
            "HF_HUB_OFFLINE": "",
            "HF_HUB_DISABLE_XET": "1",
        }
        done = subprocess.run([sys.executable, "-c", HUB], capture_output=True, text=True, timeout=300, env=environ)
    single, several, at_revision, whole, *none = done.stdout.splitlines()
    assert single == "datasets/org/name/a.csv | a"
    assert several == "datasets/org/name/a.csv datasets/org/name/d/b.csv | a"
    assert at_revision.endswith("parquet/d/b.csv | b")
    assert whole == "datasets/org/name/a.csv datasets/org/name/d/b.csv datasets/org/name/d/c.parquet | a"
    assert len(none) == 2 and all("hf://datasets/org/name/none" in line and "there is no" in line for line in none)
    assert done.stderr == ""


COMMAND = """
import sys
from attnscan.inputs.places import remote
remote.PATIENCE = 1.0
from attnscan.cli.app import main
main()
"""


@pytest.mark.parametrize("name", ["http://{}/p.csv", "s3://bucket/p.csv?endpoint_override={}&scheme=http&region=x"])
def test_the_command_ends_when_nobody_answers(name: str) -> None:
    """A library's thread that still waits does not hold it."""
    with silence() as host:
        named = name.format(host)
        arguments = ("heads", "--model", "bundled", "--pairs", named, "--pattern", "next-word")
        environ = {**os.environ, "no_proxy": "*", "AWS_EC2_METADATA_DISABLED": "true"}
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, timeout=300, env=environ
        )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert done.stderr.startswith(f"attnscan: cannot read {shown(named)}: timed out after 1 seconds; ")
