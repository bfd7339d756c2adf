"""How often the host waits for a device, and how much it launches there: exact counts.

Operations of ours are all but those of the model's own modules: the attention that is computed in
their place, what heads carry, words of several tokens, and the scorers.
"""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from support.device_models import DeviceModels
from support.pretended_device import Ledger

import attnscan
from attnscan.inputs.batch import batches
from attnscan.inputs.sentence import Pair
from attnscan.model.attention_block import AttentionBlock
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scoring.units import CELLS

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]
MAX_WAITS = 20  # a batch
MAX_OPERATIONS = 60  # a layer, or of a long input a block
NOUNS = ("man", "dog", "strawberry", "unbelievable river", "bird", "old doctor")
NUMBERS = ("two", "five", "sweet", "thermodynamic")
SHORT = [Pair(f"The {noun} went away.", f"I saw the {noun}, and the dog.") for noun in NOUNS]
MANY = [
    Pair(f"The {noun} {verb} the {place}.", f"I saw {number} of them{end}.")
    for noun, verb, place, number, end in itertools.product(
        NOUNS[:5],
        ("left", "found"),
        ("city", "house", "unbelievable river"),
        NUMBERS,
        ("", " there"),
    )
][:200]
SENTENCE = "the man saw an unbelievable house near the old river . "
LONG = [Pair(SENTENCE * times, SENTENCE * (times + 1)) for times in (7, 14, 21, 28)]
"""Of 200 to 900 tokens."""
LONGEST = [Pair(SENTENCE * 100)]
READINGS: list[dict[str, Any]] = [
    {"unit": unit, "by": by} for unit in ("token", "word") for by in ("weight", "carried")
]
PACKAGE = Path(attnscan.__file__).parent
MODELS_OWN = ("output = model(**inputs)", "result = func(*args, **(kwargs or {}))")
"""The lines of ours inside which the model's own modules run."""


def _options(model: str, **options: Any) -> ScanOptions:
    return ScanOptions(model=model, device="cuda", predictive="off", labelled=True, **options)


def _name(options: dict[str, Any]) -> str:
    return ", ".join(options.values())


@pytest.mark.parametrize("pairs", [MANY, LONG], ids=["many", "long"])
@pytest.mark.parametrize("options", [READINGS[0], READINGS[-1]], ids=_name)
@pytest.mark.parametrize("model", ["masked-lm", "mpnet"])
def test_waits_of_a_large_batch_are_few(
    model: str,
    options: dict[str, Any],
    pairs: list[Pair],
    models: DeviceModels,
    ledger: Ledger,
) -> None:
    lengths = _check_waits(models(model), pairs, ledger, **options)
    assert len(lengths) > 3  # a control: inputs of one length run together


@pytest.mark.parametrize("options", [{"special": "in"}, *READINGS], ids=_name)
@pytest.mark.parametrize("model", ["masked-lm", "mpnet"])
def test_waits_of_a_batch_are_few(
    model: str, options: dict[str, Any], models: DeviceModels, ledger: Ledger
) -> None:
    _check_waits(models(model), SHORT, ledger, **options)


def _check_waits(model: str, pairs: list[Pair], ledger: Ledger, **options: Any) -> set[int]:
    """Of the first batch behind a word, so that inputs are longer than any before.

    Returns the lengths of its inputs.
    """
    with open_scanner(_options(model, **options)) as scanner:
        scanner.score([scanner.encode(Pair("bird"))])
        (inputs,) = batches([scanner.encode(pair) for pair in pairs], 1 << 20)
        ledger.waits.clear()
        scanner.score(inputs)
    ours = sum(times for (_, place), times in ledger.waits.items() if _is_ours(place))
    assert 0 < ours <= MAX_WAITS, str(ledger)
    return {len(encoded.tokens) for encoded in inputs}


def _is_ours(place: str) -> bool:
    """Whether what happens at a line, `FILE:NUMBER`, is not the model's own."""
    file, _, number = place.rpartition(":")
    lines = (PACKAGE / file).read_text(encoding="utf-8").splitlines()
    return lines[int(number) - 1].strip() not in MODELS_OWN


def _operations_by_layer(scanner: Scanner, pairs: list[Pair], ledger: Ledger) -> list[int]:
    """Operations of ours since the layer before was scored."""
    counts: list[int] = []

    def count(_: AttentionBlock) -> None:
        ours = [times for (_, place), times in ledger.operations.items() if _is_ours(place)]
        counts.append(sum(ours))
        ledger.operations.clear()

    scanner.score([scanner.encode(pair) for pair in pairs], observers=[count])
    return counts


@pytest.mark.parametrize("options", READINGS, ids=_name)
@pytest.mark.parametrize("model", ["masked-lm", "deberta"])
def test_operations_of_a_layer_are_few(
    model: str, options: dict[str, Any], models: DeviceModels, ledger: Ledger
) -> None:
    """Of every layer but the first, which lays out what all of them share."""
    with open_scanner(_options(models(model), **options)) as scanner:
        alike = [pair for pair in MANY if len(scanner.encode(pair).tokens) == 20]
        assert len(alike) > 1
        _operations_by_layer(scanner, alike, ledger)  # masks are compared once
        first, *others = _operations_by_layer(scanner, alike, ledger)
    assert first > max(others)  # a control
    assert max(others) <= MAX_OPERATIONS, str(ledger.operations)


@pytest.mark.parametrize("options", READINGS, ids=_name)
def test_operations_of_a_block_of_a_long_input_are_few(
    options: dict[str, Any], models: DeviceModels, ledger: Ledger
) -> None:
    """Its queries are scored in ranges."""
    with open_scanner(_options(models("masked-lm"), **options)) as scanner:
        tokens = len(scanner.encode(LONGEST[0]).tokens)
        ranges = math.ceil(tokens / (CELLS // tokens))
        first, *others = _operations_by_layer(scanner, LONGEST, ledger)
    assert tokens > 1024 and ranges > 1
    assert first > max(others)  # a control
    assert max(others) <= ranges * MAX_OPERATIONS
