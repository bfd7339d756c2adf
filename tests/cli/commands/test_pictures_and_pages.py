"""`attnscan plot`, `report` and `serve`: what they draw, write, say and refuse, and how Ctrl-C ends
a server.
"""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import httpx2
import numpy as np
import pytest
from support.command_line import run
from support.drawn_pictures import size, texts
from support.hostile.runs import interrupt, once_served, served_for_a_moment
from support.links import written
from support.live_session import body_of
from support.page_contents import Elements
from support.toy_bert import save_toy_bert
from support.treebanks import planted_file
from typer.testing import CliRunner, Result

import attnscan
from attnscan.cli.app import app
from attnscan.errors import InputError
from attnscan.inputs.weights import write_weights
from attnscan.results.attention import Attention

BUNDLED = ("--model", "bundled")
OFF = ("--predictive", "off")


def refused(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


class TestPlot:
    KINDS = (
        ["map"],
        ["scores"],
        ["layers"],
        ["head", "--heads", "1-1"],
        ["head", "--heads", "1-1,0-2", "--lines"],
    )

    @pytest.mark.long
    @pytest.mark.parametrize("format", ["svg", "pdf", "png"])
    def test_every_kind_as_every_file(self, format: str, toy: str, tmp_path: Path) -> None:
        path = tmp_path / f"heads.{format.upper()}"
        for kind in self.KINDS:
            arguments = (
                "the cat sat",
                "a cat",
                "--model",
                toy,
                *OFF,
                "--kind",
                *kind,
                "-o",
                str(path),
            )
            assert run("plot", *arguments).output == ""
            picture = path.read_bytes()
            assert picture.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[format])
            width, height = size(picture, format)
            assert width == pytest.approx(3.3, abs=0.01)
            assert 0.5 < height <= 9.5

    def test_a_window_of_a_head_is_drawn_and_no_more(self, toy: str, tmp_path: Path) -> None:
        path = tmp_path / "heads.svg"
        options = ("--model", toy, "--window", "2-4", "-o", str(path))
        run("plot", "the cat sat on the mat", *options, *OFF, "--kind", "head", "--heads", "1-1")
        found = texts(path.read_bytes())
        assert {"cat", "sat", "on"} <= set(found)
        assert "mat" not in found
        wrong = refused("plot", "the cat sat", *options)
        assert wrong.exit_code == 2
        assert "--window are for --kind head" in wrong.stderr

    def test_saved_weights_are_drawn_without_a_model(
        self, attention: Attention, tmp_path: Path
    ) -> None:
        path = tmp_path / "weights.npz"
        out = tmp_path / "out.svg"
        path.write_bytes(write_weights(attention.saved()))
        for kind in self.KINDS:
            assert (
                run(
                    "plot",
                    "--weights",
                    str(path),
                    "--unit",
                    "word",
                    "--kind",
                    *kind,
                    "-o",
                    str(out),
                ).output
                == ""
            )
        found = texts(out.read_bytes())
        assert "strawberries" in found
        assert "##berries" not in found

    def test_pairs_are_drawn(self, toy: str, tmp_path: Path) -> None:
        pairs = tmp_path / "pairs.tsv"
        out = tmp_path / "out.svg"
        pairs.write_text("one\ttwo\tmore\n" + "the cat sat\ta cat ran\tx\n" * 6 + "alone\n")
        options = ("--columns", "one,two", "--skip-bad", "--model", toy, *OFF)
        assert "1 bad record" in run("plot", "--pairs", str(pairs), *options, "-o", str(out)).stderr
        shown = " ".join(texts(out.read_bytes()))
        assert "Map: what each head does, by attention weight, among words." in shown
        assert "the next word (1)" in shown.replace("\xa0", " ")


class TestReport:
    def test_a_page_of_saved_weights(self, tmp_path: Path) -> None:
        weights = tmp_path / "w.npz"
        path = tmp_path / "page.html"
        even = np.full((1, 2, 5, 5), 0.25)
        even[..., 4] = 0
        tokens = ["[CLS]", "the", "cat", "[SEP]", "[PAD]"]
        np.savez(weights, attention=even, tokens=np.array(tokens), segments=np.zeros(5, int))
        done = run("report", "--weights", str(weights), "-o", str(path))
        assert done.output == "attnscan: 1 token of padding was left out\n"
        elements = Elements(path.read_text(encoding="utf-8"))
        assert elements.facts["tokens"] == ["[CLS]", "the", "cat", "[SEP]"]
        assert elements.carried("weights") == [(0, 0), (0, 1)]
        assert elements.carried("neurons") == []

    def test_a_page_of_pairs(self, tmp_path: Path) -> None:
        pairs = tmp_path / "pairs.csv"
        path = tmp_path / "page.html"
        pairs.write_text("x,y\n" + "".join(f"the cat {i} sat,a cat {i} ran\n" for i in range(6)))
        run("report", "--pairs", str(pairs), "--columns", "x,y", *BUNDLED, *OFF, "-o", str(path))
        html = path.read_text(encoding="utf-8")
        facts = Elements(html).facts
        assert [*facts["titles"]] == [*facts["profiles"]] == ["weight-words"]
        assert "6 pairs" in html

    def test_sentences_of_a_treebank_are_chosen_by_number(self, tmp_path: Path) -> None:
        model = str(save_toy_bert(tmp_path / "m", 1, 2, {(0, 0): "articles to nouns"}))
        path = tmp_path / "page.html"
        arguments = [
            "report",
            "--treebank",
            planted_file(tmp_path),
            "--model",
            model,
            *OFF,
            "-o",
            str(path),
        ]
        done = refused(*arguments, "--sentences", "289")
        assert (done.exit_code, path.exists()) == (1, False)
        assert done.stderr == "attnscan: there is no sentence 289; the treebank has 288 sentences\n"
        assert run(*arguments, "--sentences", "40,2-3").output == ""
        inputs = Elements(path.read_text(encoding="utf-8")).data["inputs"]
        assert [each["key"] for each in inputs] == ["40", "2", "3"]

    def test_links_are_arcs_through_both_sentences(self, tmp_path: Path) -> None:
        model = str(save_toy_bert(tmp_path / "m", 1, 2, {(0, 0): "articles to nouns"}))
        links = [["coref", 3, 1], ["other", 4, 0]]
        records = [{"text": "the cat sat", "text_b": "i ran", "links": links}]
        path = tmp_path / "page.html"
        arguments = ["--links", written(tmp_path / "a.jsonl", records), "--model", model, *OFF]
        run("report", *arguments, "-o", str(path))
        (page_input,) = Elements(path.read_text(encoding="utf-8")).data["inputs"]
        linked = page_input["tree"]
        assert linked["words"] == ["the", "cat", "sat", "i", "ran"]
        assert linked["text"] == "the cat sat / i ran" and not linked["isTree"]
        assert linked["wordOf"] == [-1, 0, 1, 2, -1, 3, 4, -1]
        assert linked["arcs"][0] == {"from": 3, "to": 1, "relation": "coref"}
        done = refused("report", *arguments, "--sentences", "2", "-o", str(path))
        assert done.stderr == "attnscan: there is no sentence 2; the links have 1 sentence\n"

    def test_what_did_not_fit_is_said(self, tmp_path: Path) -> None:
        words = " ".join(["the cat sat on the mat and the dog ran"] * 6)
        path = tmp_path / "page.html"
        done = run("report", words, *BUNDLED, *OFF, "--size", "1", "-o", str(path))
        assert re.search(
            r"attnscan: the queries and keys of \d+ of 72 heads fit in 1 MB", done.stderr
        )
        assert path.stat().st_size <= 1_000_000


class TestServe:
    """`attnscan serve`, and the function of its name."""

    URL = re.compile(r"http://127\.0\.0\.1:(\d+)/[A-Za-z0-9_-]{32}/")
    WAIT = 120

    def ask(self, url: str, path: str = "", body: bytes | None = None) -> bytes:
        """What is answered, by a page or to a question."""
        kind = {} if body is None else {"Content-Type": "application/json"}
        method = "GET" if body is None else "POST"
        answer = httpx2.request(method, url + path, content=body, headers=kind, timeout=self.WAIT)
        assert answer.status_code == 200, answer
        return answer.content

    def serve(self, *arguments: str) -> Result:
        with served_for_a_moment():
            return CliRunner().invoke(app, ["serve", *arguments])

    @contextmanager
    def process(self) -> Iterator[tuple[Any, str]]:
        """A process that serves, and its address."""
        line = [sys.executable, "-m", "attnscan", "serve", "the cat sat", *BUNDLED]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(line, start_new_session=True, **pipes) as process:
            try:
                yield process, process.stdout.readline().strip()  # type: ignore[union-attr]
            finally:
                process.kill()

    @pytest.mark.long
    def test_a_process_answers(self) -> None:
        with self.process() as (_, url):
            assert self.URL.fullmatch(url)
            assert b"<html" in self.ask(url)
            assert json.loads(self.ask(url, "answer", body_of(a="the dog sat")))["id"]

    @pytest.mark.long
    def test_ctrl_c_ends_a_process_in_peace(self) -> None:
        """Also while a browser keeps a connection open."""
        with self.process() as (process, url):
            address = ("127.0.0.1", urlsplit(url).port)
            with socket.create_connection(address, timeout=self.WAIT):
                process.send_signal(signal.SIGINT)
                rest, said = process.communicate(timeout=self.WAIT)
        assert (process.returncode, rest) == (0, "")
        assert said == "attnscan: open this address to ask all-MiniLM-L6-v2; Ctrl-C ends it\n"

    def test_after_ctrl_c_the_port_is_free(self) -> None:
        done = self.serve(*BUNDLED)
        assert done.exit_code == 0
        with pytest.raises(httpx2.ConnectError):
            self.ask(done.stdout.strip())

    def test_ctrl_c_before_there_is_an_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("attnscan.server.session.Session.trial", interrupted)
        done = self.serve(*BUNDLED)
        assert (done.exit_code, done.stdout) == (130, "")
        assert done.stderr == "attnscan: interrupted\n"

    def test_the_function_serves_until_it_is_closed(self) -> None:
        with attnscan.serve("the cat sat", model="bundled", against="bundled") as server:
            assert self.URL.fullmatch(server.url)
            assert server.titles == ("all-MiniLM-L6-v2",) * 2
            for model in (0, 1):
                assert json.loads(self.ask(server.url, "answer", body_of(a="a dog", model=model)))[
                    "id"
                ]
                assert b"<html" in self.ask(server.url, f"?model={model}")
        with pytest.raises(httpx2.ConnectError):
            self.ask(server.url)

    def test_a_port_may_be_named_and_is_refused_if_it_is_taken(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = self.serve("--port", str(port), *BUNDLED)
            remedy = "choose another, or leave out --port for a free one"
            line = f"attnscan: port {port} is in use; {remedy}\n"
            assert (done.exit_code, done.stdout, done.stderr) == (1, "", line)
        done = self.serve("--port", str(port), *BUNDLED)
        assert done.exit_code == 0
        match = self.URL.fullmatch(done.stdout.strip())
        assert match is not None
        assert match[1] == str(port)

    def test_a_browser_may_be_opened_and_need_not_be_there(self) -> None:
        with once_served(interrupt):
            for found in (True, False):
                with mock.patch("webbrowser.open", return_value=found) as opened:
                    done = CliRunner().invoke(app, ["serve", "--open", *BUNDLED])
                opened.assert_called_once_with(done.stdout.strip())
                assert (
                    "no browser is available: open the address by hand" in done.stderr
                ) is not found

    @pytest.mark.parametrize("attention", ["cross", "all"])
    def test_alignments_are_of_the_first_pair(self, attention: str, tmp_path: Path) -> None:
        links = tmp_path / "links.txt"
        links.write_text("0-1 1-0\n")
        translator = str(Path(__file__).parents[2] / "data" / "translator")
        options: dict[str, Any] = {"model": translator, "attention": attention, "alignments": links}
        kind = {"attention": "cross" if attention == "all" else ""}
        with attnscan.serve("bado fela", "ALEF ODAB", **options) as server:
            for b, is_linked in (("ALEF ODAB", True), ("ALEF", False), (None, False)):
                answer = json.loads(
                    self.ask(server.url, "answer", body_of(a="bado fela", b=b, **kind))
                )
                assert bool(answer["facts"]["gold"]) is is_linked
        links.write_text("0-2")
        with pytest.raises(InputError, match="links no words of"):
            attnscan.serve("bado fela", "ALEF ODAB", **options)


@pytest.mark.parametrize(
    ("command", "library", "what"),
    [("plot", "matplotlib", "pictures need"), ("serve", "uvicorn", "attnscan serve needs")],
)
def test_without_a_library_one_line_says_how_to_get_it(
    command: str, library: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    done = refused(
        command, "A b.", *(("-o", str(tmp_path / "heads.svg")) if command == "plot" else BUNDLED)
    )
    missing = f"{what} {library}, which is not installed"
    line = f"attnscan: {missing}; run: pip install 'attnscan[{command}]'\n"
    assert (done.exit_code, done.output) == (1, line)
