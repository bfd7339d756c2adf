"""The command: what it says and where, what it refuses, and how Ctrl-C ends it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import pytest
from hostile.runs import interrupt, once_served, served_for_a_moment
from typer.testing import CliRunner, Result

import attnscan
from attnscan.cli.app import app
from attnscan.cli.commands import pictures_and_pages as command

URL = re.compile(r"http://127\.0\.0\.1:(\d+)/[A-Za-z0-9_-]{32}/")
BUNDLED = ("--model", "bundled")
TRANSLATOR = str(Path(__file__).parents[2] / "data" / "translator")
WAIT = 120


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real process, once it says its address."""
    ready = {"start_new_session": True}
    line = [sys.executable, "-m", "attnscan", "serve", *arguments, *BUNDLED]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **ready) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def _asked(url: str, path: str = "", body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
    kind = {} if body is None else {"Content-Type": "application/json"}
    given = None if body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", parts.path + path, given, kind)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


@pytest.mark.long
def test_a_real_one_answers_and_ctrl_c_ends_it() -> None:
    with started("the cat sat") as (process, url):
        assert URL.fullmatch(url)
        status, page = _asked(url)
        assert status == 200 and b"<html" in page
        status, answer = _asked(url, "answer", {"a": "the dog sat"})
        assert status == 200 and json.loads(answer)["id"]
        with socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=WAIT):  # idle
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=WAIT)
        assert (process.returncode, rest) == (0, "")
        assert said == "attnscan: open this address to ask all-MiniLM-L6-v2; Ctrl-C ends it\n"


def _ran(*arguments: str) -> Result:
    with served_for_a_moment():
        return CliRunner().invoke(app, ["serve", *arguments])


def test_the_function_serves_until_it_is_closed() -> None:
    with attnscan.serve("the cat sat", model="bundled") as server:
        assert URL.fullmatch(server.url) and server.titles == ("all-MiniLM-L6-v2",)
        assert _asked(server.url)[0] == 200
    with pytest.raises(OSError):
        _asked(server.url)


def test_a_port_may_be_named_and_is_refused_if_it_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = _ran("--port", str(port), *BUNDLED)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == (f"attnscan: port {port} is in use; choose another, or leave out --port for a free one\n")
    done = _ran("--port", str(port), *BUNDLED)
    assert (match := URL.fullmatch(done.stdout.strip())) and match[1] == str(port) and done.exit_code == 0


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = _ran(*BUNDLED)
    remedy = "which is not installed; run: pip install 'attnscan[serve]'"
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"attnscan: attnscan serve needs uvicorn, {remedy}\n"


def test_a_browser_may_be_opened_and_need_not_be_there() -> None:
    with once_served(interrupt):
        for found in (True, False):
            with mock.patch("webbrowser.open", return_value=found) as opened:
                done = CliRunner().invoke(app, ["serve", "--open", *BUNDLED])
            opened.assert_called_once_with(done.stdout.strip())
            assert ("no browser is available: open the address by hand" in done.stderr) is not found


@contextmanager
def _served(*arguments: str) -> Iterator[str]:
    """In this process: the address, while it is served."""
    urls: list[str] = []
    begun, enough = threading.Event(), threading.Event()

    def serve() -> None:
        begun.set()
        assert enough.wait(WAIT)
        interrupt()

    with (
        once_served(serve),
        mock.patch.object(command, "write_stdout", lambda line: urls.append(line.decode().strip())),
    ):
        done: list[Result] = []
        thread = threading.Thread(target=lambda: done.append(CliRunner().invoke(app, ["serve", *arguments])))
        thread.start()
        try:
            while not begun.wait(0.1):
                assert thread.is_alive(), done[0].output
            yield urls[0]
        finally:
            enough.set()
            thread.join(WAIT)
    assert done[0].exit_code == 0


def test_two_models_are_asked_the_same() -> None:
    with _served("the cat sat", "--against", "bundled", *BUNDLED) as url:
        for model in (0, 1):
            status, _ = _asked(url, "answer", {"a": "a dog", "model": model})
            assert (status, _asked(url, f"?model={model}")[0]) == (200, 200)


@pytest.mark.parametrize("attention", ["cross", "all"])
def test_alignments_are_of_the_first_pair(attention: str, tmp_path: Path) -> None:
    (links := tmp_path / "links.txt").write_text("0-1 1-0\n")
    named = ("bado fela", "ALEF ODAB", "--model", TRANSLATOR, "--attention", attention, "--alignments", str(links))
    asked = {"attention": "cross" if attention == "all" else ""}
    with _served(*named) as url:
        for turn, b in enumerate(["ALEF ODAB", "ALEF", None]):
            status, answer = _asked(url, "answer", {"a": "bado fela", "b": b, **asked})
            assert status == 200 and bool(json.loads(answer)["facts"]["gold"]) is (turn == 0)
    links.write_text("0-2")
    done = _ran(*named)
    assert (done.exit_code, done.stdout) == (1, "") and "links no words of" in done.stderr
