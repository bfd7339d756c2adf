"""How often the host waits for a device, and how much it launches there: exact counts."""

from typing import Any

import pytest
from support.device_models import DeviceModels
from support.pretended_device import Ledger

from attnscan.inputs.sentence import Pair
from attnscan.model.attention_block import AttentionBlock
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.scoring.class_scorer import ClassScorer
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.units import Targets, show_units

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]
MAX_WAITS = 20  # a batch
MAX_OPERATIONS = 60  # a layer
NOUNS = ("man", "dog", "strawberry", "unbelievable river", "bird", "old doctor")
PAIRS = [Pair(f"The {noun} went away.", f"I saw the {noun}, and the dog.") for noun in NOUNS]


def _options(model: str, **options: Any) -> ScanOptions:
    return ScanOptions(model=model, device="cuda", predictive="off", labelled=True, **options)


@pytest.mark.parametrize("count", [2, len(PAIRS)])
@pytest.mark.parametrize(
    "options",
    [{}, {"special": "in"}, {"unit": "word"}, {"by": "carried"}],
    ids=["tokens", "special", "words", "carried"],
)
def test_waits_of_a_batch_are_few(
    options: dict[str, Any], count: int, models: DeviceModels, ledger: Ledger
) -> None:
    with open_scanner(_options(models("masked-lm"), **options)) as scanner:
        inputs = [scanner.encode(pair) for pair in PAIRS[:count]]
        scanner.score(inputs)
        ledger.waits.clear()
        scanner.score(inputs)
    assert 0 < sum(ledger.waits.values()) <= MAX_WAITS, str(ledger)


def test_operations_of_a_layer_are_few(models: DeviceModels, ledger: Ledger) -> None:
    """Of every layer but the first, which lays out what all of them share."""
    operations: list[int] = []
    options = _options(models("masked-lm"))
    with open_scanner(options) as scanner:
        batch = scanner.collate([scanner.encode(pair) for pair in PAIRS])
        targets = Targets(batch, options.patterns)
        scorers = [PatternScorer(targets), ClassScorer(targets.units, special=False)]

        def take(block: AttentionBlock) -> None:
            ledger.operations.clear()
            show_units(targets.units, scorers, block)
            operations.append(sum(ledger.operations.values()))

        scanner.tap.run(batch.model_inputs, take)
    first, *others = operations
    assert first > max(others)  # a control
    assert max(others) <= MAX_OPERATIONS
