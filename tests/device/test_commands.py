"""Every function on a device gives the CPU's numbers, and nothing on it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.device_models import DeviceModels
from support.page_contents import Elements
from support.pretended_device import Ledger
from support.translator import TRANSLATOR
from transformers import AutoModelForMaskedLM, AutoTokenizer

import attnscan
from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.inputs.read import random_pairs
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.server.session import Loaded, Question

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]
A = "I went to the store."
B = "At the store, I bought fresh strawberries."
PAIRS = [
    (f"The {who} went to the store.", f"At the store, the {who} bought {how} strawberries.")
    for who, how in zip(("man", "dog", "king", "cat"), ("two", "five", "red", "old"), strict=True)
]
TRANSLATIONS = [
    ("bado fela gumi", "IMUG ALEF ODAB"),
    ("hora jiku kepo lani", "INAL OPEK UKIJ AROH"),
]
ALIGNMENTS = ["0-2 1-1 2-0", "0-3 1-2 2-1 3-0"]
TREEBANK = """# text = The dog saw a cat.
1	The	the	DET	_	_	2	det	_	_
2	dog	dog	NOUN	_	_	3	nsubj	_	_
3	saw	see	VERB	_	_	0	root	_	_
4	a	a	DET	_	_	5	det	_	_
5	cat	cat	NOUN	_	_	3	obj	_	SpaceAfter=No
6	.	.	PUNCT	_	_	3	punct	_	_

# text = A cat slept.
1	A	a	DET	_	_	2	det	_	_
2	cat	cat	NOUN	_	_	3	nsubj	_	_
3	slept	sleep	VERB	_	_	0	root	_	SpaceAfter=No
4	.	.	PUNCT	_	_	3	punct	_	_

"""
LONG = "the man saw a red house near the old river . " * 110
OFF = {"predictive": "off"}


class Commands:
    """The functions of attnscan, on one device."""

    def __init__(self, device: str, models: DeviceModels, directory: Path) -> None:
        self.device = device
        self.models = models
        self.directory = directory

    def classify(self, model: str = "masked-lm", **options: Any) -> Any:
        return attnscan.classify(A, B, model=self.models(model), device=self.device, **options)

    def heads(self, model: str = "masked-lm", pairs: Any = PAIRS, **options: Any) -> Any:
        options = OFF | options
        return attnscan.heads(pairs, model=self.models(model), device=self.device, **options)

    def run(self, name: str, *arguments: Any, model: str = "masked-lm", **options: Any) -> Any:
        """Call a function by its name."""
        function = getattr(attnscan, name)
        return function(*arguments, model=self.models(model), device=self.device, **options)

    def translate(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a function with the translator of the tests."""
        function = getattr(attnscan, name)
        return function(*arguments, model=str(TRANSLATOR), device=self.device, **options)

    def in_memory(self) -> Any:
        directory = self.models("masked-lm")
        model = AutoModelForMaskedLM.from_pretrained(directory).to(self.device)
        tokenizer = AutoTokenizer.from_pretrained(directory)
        return attnscan.classify(A, B, model=model, tokenizer=tokenizer)

    def saved_weights(self) -> Any:
        file = self.directory / "weights.npz"
        self.classify(save_weights=file, **OFF)
        return attnscan.classify(weights=file)

    def sharded(self) -> Any:
        shard = attnscan.shard(PAIRS, model=self.models("masked-lm"), device=self.device, **OFF)
        return attnscan.finish(shard)

    def own_pattern(self) -> str:
        file = self.directory / "mine.py"
        file.write_text(
            "def two_back(batch):\n    return batch.same_sentence & (batch.offset == -2)\n"
        )
        return f"{file}:two_back"

    def treebank(self) -> str:
        file = self.directory / "small.conllu"
        file.write_text(TREEBANK, encoding="utf-8")
        return str(file)

    def drawn_map(self) -> pd.DataFrame:
        """The shapes of a picture, without what it says of the device."""
        svg = self.run("plot", A, B, predictive="off").decode()
        shapes = re.sub(r"(?s)<metadata>.*?</metadata>", "", svg)
        return pd.DataFrame({"line": shapes.splitlines()})

    def page_rows(self) -> pd.DataFrame:
        """The table of heads that a page holds."""
        facts = Elements(self.run("report", A, B, predictive="off").html).facts
        return pd.DataFrame(facts["rows"]["weight-words"], columns=facts["columns"])

    def live_page(self, model: str, **fields: Any) -> Any:
        """What the server computes for its page."""
        options = ScanOptions(model=self.models(model), device=self.device)
        question = Question(a=A, b=B, **fields)
        with open_scanner(options) as scanner:
            trial = Loaded.from_scanners([scanner]).run(question)
        turned = [prediction.turned or () for prediction in trial.predictions]
        numbers = pd.DataFrame({"number": [value for values in turned for value in values]})
        return [trial.result, numbers]


Run = Callable[[Commands], Any]
ONE_INPUT: dict[str, Run] = {
    "predictive by distance": lambda c: c.classify("modernbert", predictive="distance"),
    "predictive by cpmi": lambda c: c.classify(predictive="cpmi"),
    "carried": lambda c: c.classify(by="carried", **OFF),
    "special in, by word": lambda c: c.classify(unit="word", special="in", **OFF),
    "words between spaces": lambda c: c.classify(unit="word", words="spaces", **OFF),
    "own pattern": lambda c: c.classify(pattern=c.own_pattern(), **OFF),
    "float16": lambda c: c.classify(dtype="float16", **OFF),
    "bfloat16": lambda c: c.classify(dtype="bfloat16", **OFF),
    "a model in memory": lambda c: c.in_memory(),
    "saved weights": lambda c: c.saved_weights(),
    "DeBERTa": lambda c: c.classify("deberta", **OFF),
    "MPNet, carried": lambda c: c.classify("mpnet", by="carried", **OFF),
    "XLNet": lambda c: c.classify("xlnet", **OFF),
    "GPT-2": lambda c: c.classify("gpt2"),
    "Marian, all kinds": lambda c: list(
        c.run("classify", *TRANSLATIONS[1], model="marian", attention="all").values()
    ),
    "T5, written target": lambda c: c.translate("classify", TRANSLATIONS[0][0], attention="cross"),
}
MANY_PAIRS: dict[str, Run] = {
    "weights": lambda c: c.heads(),
    "predictive": lambda c: c.heads(predictive="auto"),
    "carried, by word": lambda c: c.heads(by="carried", unit="word"),
    "split": lambda c: c.heads(split=True),
    "small batches": lambda c: c.heads(batch_tokens=64),
    "own pattern": lambda c: c.heads(pattern=c.own_pattern()),
    "float16": lambda c: c.heads(dtype="float16"),
    "bfloat16": lambda c: c.heads(dtype="bfloat16"),
    "shard and finish": lambda c: c.sharded(),
    "DeBERTa, by word": lambda c: c.heads("deberta", unit="word"),
    "MPNet": lambda c: c.heads("mpnet"),
    "ModernBERT, carried": lambda c: c.heads("modernbert", by="carried"),
    "GPT-2, induction": lambda c: c.heads(
        "gpt2", [record.pair.a for record in islice(random_pairs(), 8)], pattern="induction"
    ),
    "Marian, written targets": lambda c: c.heads(
        "marian", [source for source, _ in TRANSLATIONS], attention="decoder"
    ),
    "T5, all kinds": lambda c: list(
        c.translate("heads", TRANSLATIONS, attention="all", alignments=ALIGNMENTS).values()
    ),
}
STUDIES: dict[str, Run] = {
    "profile": lambda c: c.run("profile", pairs=PAIRS),
    "explain": lambda c: c.run("explain", "2-0", A, B),
    "explain, pairs": lambda c: c.run("explain", "2-0", pairs=PAIRS),
    "explain, GPT-2": lambda c: c.run("explain", "1-0", "a b c a b c", model="gpt2"),
    "explain, cross": lambda c: c.translate("explain", "c0-1", *TRANSLATIONS[0], attention="cross"),
    "show": lambda c: c.run("show", "0-2", A, B),
    "ablate, masked-lm": lambda c: c.run("ablate", PAIRS, heads="0-2"),
    "ablate, next sentence": lambda c: c.run(
        "ablate", PAIRS, each=True, replace="mean", model="next-sentence"
    ),
    "ablate, classifier": lambda c: c.run("ablate", PAIRS, heads="0-2", model="classifier"),
    "ablate, DeBERTa": lambda c: c.run("ablate", PAIRS, heads="0-2", model="deberta"),
    "ablate, cross": lambda c: c.translate("ablate", TRANSLATIONS, attention="cross", heads="c0-1"),
    "similar": lambda c: c.run("similar", PAIRS),
    "compare": lambda c: attnscan.compare(
        c.models("masked-lm"),
        c.models("next-sentence"),
        pairs=PAIRS,
        device=c.device,
        match="nearest",
    ),
    "predictive": lambda c: c.run("predictive", A, B),
    "head": lambda c: c.run("head", "0-2", pairs=PAIRS),
    "trace": lambda c: attnscan.trace(
        [c.models("masked-lm"), c.models("next-sentence")], pairs=PAIRS, device=c.device
    ),
    "plot": lambda c: c.drawn_map(),
    "report": lambda c: c.page_rows(),
    "models": lambda c: attnscan.models(c.models("masked-lm"), device=c.device),
    "syntax": lambda c: c.run("syntax", c.treebank()),
    "syntax, carried": lambda c: c.run("syntax", c.treebank(), by="carried"),
    "serve, heads off": lambda c: c.live_page(
        "masked-lm", off=["0-1", "2-2"], positions="shuffled"
    ),
    "serve, hidden words": lambda c: c.live_page(
        "next-sentence", hidden=[3, 4], segments="swapped"
    ),
}
LONG_INPUTS: dict[str, Run] = {
    "one, by token": lambda c: c.run("classify", LONG, keep_attention=False, **OFF),
    "one, by word": lambda c: c.run("classify", LONG, keep_attention=False, unit="word", **OFF),
    "many": lambda c: c.heads(pairs=[(LONG, None)]),
}


NO_MODEL_RUNS = {"pairs", "patterns"}


def test_every_command_is_tried() -> None:
    """Those of one table are named as their cases begin."""
    tried = {"classify", "heads", *(name.partition(",")[0] for name in STUDIES)}
    assert tried == set(COMMAND_NAMES) - NO_MODEL_RUNS


def _frames(result: Any) -> list[pd.DataFrame]:
    """The numbers of a result."""
    parts = result if isinstance(result, list | tuple) else [result]
    frames = [part if isinstance(part, pd.DataFrame) else part.to_frame() for part in parts]
    return [frame.reset_index() for frame in frames]


def _check(
    run: Run, models: DeviceModels, directory: Path, ledger: Ledger, atol: float = 1e-6
) -> None:
    """Compare a function's numbers on the device with those on the CPU."""
    expected = _frames(run(Commands("cpu", models, directory)))
    found = _frames(run(Commands("cuda", models, directory)))
    assert ledger.refused == []
    assert ledger.operations, "a control"
    for want, have in zip(expected, found, strict=True):
        assert list(have) == list(want)
        for column in want:
            if pd.api.types.is_numeric_dtype(want[column]):
                np.testing.assert_allclose(
                    have[column].to_numpy(float, na_value=np.nan),
                    want[column].to_numpy(float, na_value=np.nan),
                    rtol=0,
                    atol=atol,
                    err_msg=str(column),
                )
            else:
                assert have[column].astype(str).equals(want[column].astype(str)), column


@pytest.mark.parametrize("name", ONE_INPUT)
def test_classify(name: str, models: DeviceModels, tmp_path: Path, ledger: Ledger) -> None:
    _check(ONE_INPUT[name], models, tmp_path, ledger)


@pytest.mark.parametrize("name", MANY_PAIRS)
def test_heads(name: str, models: DeviceModels, tmp_path: Path, ledger: Ledger) -> None:
    _check(MANY_PAIRS[name], models, tmp_path, ledger)


@pytest.mark.parametrize("name", STUDIES)
def test_studies(name: str, models: DeviceModels, tmp_path: Path, ledger: Ledger) -> None:
    _check(STUDIES[name], models, tmp_path, ledger)


@pytest.mark.long
@pytest.mark.parametrize("name", LONG_INPUTS)
def test_long_inputs(name: str, models: DeviceModels, tmp_path: Path, ledger: Ledger) -> None:
    # A row's 1,500 shares are added in float32, in parts of another size than on a CPU
    _check(LONG_INPUTS[name], models, tmp_path, ledger, atol=5e-6)


@pytest.mark.usefixtures("ledger")
def test_a_result_names_its_device(models: DeviceModels) -> None:
    result = attnscan.classify(A, model=models("masked-lm"), device="cuda", **OFF)
    assert result.signature.device == "cuda"
