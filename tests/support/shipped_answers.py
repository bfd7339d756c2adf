"""The answers about predictive words that attnscan ships: of the bundled model, on the shipped pairs.

    python tests/support/shipped_answers.py

asks for all of them, which takes minutes, and writes them where the package reads them.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from attnscan.inputs.pairs import shipped_pairs
from attnscan.scan.answers import SHIPPED, packed
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.predictive import Questions, help_between_words

OPTIONS = ScanOptions(model="bundled", device="cpu")


def questions_of(scanner: Scanner) -> list[Questions]:
    """What is asked of each shipped pair."""
    pairs = [record.pair for record in shipped_pairs()]
    return [Questions(scanner.encode(pair), scanner.options.predictive_words) for pair in pairs]


def main() -> None:
    """Ask and write."""
    with Scanner(OPTIONS) as scanner:
        questions = questions_of(scanner)
        assert scanner.measure is not None
        asked = help_between_words(scanner.loaded, questions, scanner.measure, batch_tokens=None)
        found = dict(answer for _, _, answers in asked for answer in answers)
        answers = {
            scanner.answers.shipped_key(each): found[index].values[each.cells] for index, each in enumerate(questions)
        }
    place = Path(str(resources.files("attnscan.scan").joinpath(SHIPPED)))
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(packed(answers))
    print(f"{len(answers)} answers, {sum(map(len, answers.values())):,} numbers, {place.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
