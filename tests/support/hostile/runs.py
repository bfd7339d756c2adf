"""Runs of the command line inside this process, on models that are loaded once, and what must hold
of any run.
"""

import functools
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import typer
from support.tokenizers_of_kinds import byte_level
from transformers import BertConfig, BertModel
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.model import loading as models
from attnscan.text import plain

LAYERS = 2
HEADS = 2
POSITIONS = 96
_NOTE = re.compile(r"attnscan: (skipped: .+|.+ \(--[a-z-]+ .+\))")
"""Lines before that of an error: a bad record that was skipped, how a file is read and the option
that changes it.
"""


def save_tiny_model(directory: Path) -> Path:
    """A random BERT that reads any text byte by byte."""
    tokenizer = byte_level()
    torch.manual_seed(0)
    sizes = {
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_size": 8,
        "intermediate_size": 8,
    }
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, pad_token_id=0, **sizes
    )
    BertModel(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


class Trap:
    """Makes a directory when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._marker,)


@contextmanager
def loaded_once() -> Iterator[None]:
    """Load each model once, and put the commands together once, however many runs ask for them."""
    with (
        mock.patch("attnscan.scan.scanner.load", functools.cache(models.load)),
        mock.patch("typer.testing._get_command", functools.cache(typer.main.get_command)),
    ):
        yield


@contextmanager
def once_served(ended: Callable[[], None]) -> Iterator[None]:
    """What `attnscan serve` does once it serves, in place of waiting for a second."""
    join = threading.Thread.join

    def instead(thread: threading.Thread, timeout: float | None = None) -> None:
        return ended() if timeout == 1 else join(thread, timeout)

    with mock.patch("threading.Thread.join", instead):
        yield


def interrupt() -> None:
    """Ctrl-C."""
    raise KeyboardInterrupt


@contextmanager
def served_for_a_moment() -> Iterator[None]:
    """Ctrl-C ends every server as soon as it has begun; that this process is not to end at once is
    no matter here.
    """
    with once_served(interrupt), mock.patch("webbrowser.open", return_value=False):
        yield


def run(*arguments: object) -> Result:
    """A run of the command line."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def readable(text: str) -> bool:
    """Whether a terminal would show this, and obey nothing of it but line ends and tabs."""
    inside = text.replace("\n", "").replace("\t", "")
    return plain(inside) == inside


def check(result: Result) -> bool:
    """Whether a run did its work. One that did not has said so in one line, or is a wrong use;
    nothing else may be.

    Raises: AssertionError.
    """
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError("a traceback") from result.exception
    assert result.exit_code in (0, 1, 2), result.exit_code
    assert readable(result.stdout) and readable(result.stderr), (
        f"what a terminal obeys: {result.output!r}"
    )
    lines = result.stderr.splitlines()
    if result.exit_code == 1:
        *notes, last = lines
        assert all(_NOTE.fullmatch(line) for line in notes), result.stderr
        assert last.startswith("attnscan: "), result.stderr
        # What was found is told all the same where only a file beside it cannot be written
        assert result.stdout == "" or last.startswith("attnscan: cannot write "), result.stdout
    if result.exit_code == 2:
        (line,) = lines
        assert (
            line.startswith("attnscan: ") and line.endswith(" --help)") and result.stdout == ""
        ), result.stderr
    return result.exit_code == 0
