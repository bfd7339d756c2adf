"""What a tokenizer raises is one line, what it prints is not shown, and it may not take for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hostile.checkpoints import EXPLODES
from tokenizers import Regex, pre_tokenizers
from tokenizers_of_kinds import wordpiece

from attnscan.errors import InputError, ModelError
from attnscan.inputs import tokenizer_calls
from attnscan.inputs.encode import check_reads_sentences, encode_pair, whole_words
from attnscan.inputs.pairs import Pair
from attnscan.inputs.tokenizer_calls import TokenizerFailed, asked, called, hushed

SLOW = "(?:a|a){20}(?=[^a!])"
"""A second for thirty letters `a`, and below the number of attempts at which it is given up."""


def splitting(regex: str) -> Any:
    """A tokenizer with a regular expression of its own."""
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(regex), "isolated")
    return tokenizer


class Raising:
    """A tokenizer written in Python that fails at everything."""

    is_fast = False
    all_special_tokens: tuple[str, ...] = ()

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> Any:
        raise self._error

    def get_vocab(self) -> dict[str, int]:
        raise self._error


ODD = [KeyError("x"), RecursionError(), AssertionError(), UnicodeError("\x1b[2J"), ImportError("no protobuf\nhere")]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_whatever_a_tokenizer_raises_is_one_line(error: Exception) -> None:
    tokenizer = Raising(error)
    for kind, do in (
        (InputError, lambda: encode_pair(tokenizer, Pair("the"), "token", 9, False)),
        (ModelError, lambda: check_reads_sentences(tokenizer)),
        (ModelError, lambda: whole_words(tokenizer)),
    ):
        with pytest.raises(kind) as caught:
            do()
        assert "the tokenizer Raising" in str(caught.value) and caught.value.remedy
        assert len(str(caught.value).splitlines()) == 1 and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), MemoryError()], ids=lambda e: type(e).__name__)
def test_what_is_not_the_tokenizers_own_is_left_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)):
        called(Raising(error), "the")


def test_a_panic_of_rust_is_an_error_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = splitting(EXPLODES)
    with pytest.raises(TokenizerFailed, match="retry-limit"):
        called(tokenizer, "the cat sat on the mat")
    with hushed(), pytest.raises(ModelError, match=r"PreTrainedTokenizerFast|TokenizersBackend"):
        check_reads_sentences(tokenizer)
    assert capfd.readouterr().err == ""
    os.write(2, b"said again\n")
    assert capfd.readouterr().err == "said again\n"


def test_where_python_writes_to_descriptor_2_itself_nothing_is_hidden() -> None:
    """In a notebook or a script another thread may be writing there."""
    script = (
        "import os\nfrom attnscan.inputs.tokenizer_calls import hushed\n"
        "with hushed(): os.write(2, b'of a library\\n')\n"
        "from attnscan.cli.messages import say, write_apart_from_libraries\nwrite_apart_from_libraries()\n"
        "with hushed(): os.write(2, b'hidden\\n'); say('shown')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "of a library\nattnscan: shown\n"


def test_without_standard_error_there_is_nothing_to_hide() -> None:
    script = "import os\nos.close(2)\nfrom attnscan.inputs.tokenizer_calls import hushed\nwith hushed(): print(1)"
    assert subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True).stdout == b"1\n"


def test_a_slow_regular_expression_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = splitting(SLOW)
    assert called(tokenizer, "a" * 10)["input_ids"]
    monkeypatch.setattr(tokenizer_calls, "PATIENCE", 0.1)
    with pytest.raises(ModelError, match="has not read a sentence after 0 seconds"):
        encode_pair(tokenizer, Pair("a" * 40 + "!"), "token", 99, truncate=False)


@pytest.mark.long
def test_a_run_inside_a_regular_expression_hears_an_interrupt() -> None:
    script = (
        "from attnscan.inputs.tokenizer_calls import called\n"
        "from test_tokenizer_calls import SLOW, splitting\n"
        "tokenizer = splitting(SLOW)\nprint('ready', flush=True)\ncalled(tokenizer, 'a' * 2000 + '!')\n"
    )
    places = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": places}
    ) as running:
        assert running.stdout is not None
        while running.stdout.readline().strip() != "ready":  # a tokenizer prints empty lines when it is trained
            assert running.poll() is None
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=120)
    assert "KeyboardInterrupt" in told and running.returncode in (-signal.SIGINT, 130)


def test_only_a_tokenizer_that_may_take_long_works_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("in a thread")

    monkeypatch.setattr(tokenizer_calls, "within", refuse)
    assert called(wordpiece(), "the cat")["input_ids"]
    long_words = wordpiece()
    long_words.backend_tokenizer.model.max_input_chars_per_word = 10**9
    for tokenizer in (splitting("a+"), long_words):
        with pytest.raises(AssertionError, match="in a thread"):
            called(tokenizer, "the cat")


def test_a_function_of_a_tokenizer_is_asked_with_its_arguments() -> None:
    assert asked(wordpiece().convert_ids_to_tokens, [0]) == ["[PAD]"]
