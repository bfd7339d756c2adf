"""A pattern of one's own: which heads look from a verb to its subject?

    python examples/own_pattern.py [MODEL]

The parses below are given as indices, as a dependency parser gives them: each sentence's words, and
for every verb the word that is its subject. A pattern is a function from a batch of inputs to a
target [batch, query, key] in [0, 1]; a query whose row is all zero is not counted.
"""

from __future__ import annotations

import sys

import torch

import attnscan
from attnscan.inputs.batch import EncodedInput

# (words, {verb: its subject}), both counted from zero
PARSES: list[tuple[str, dict[int, int]]] = [
    ("The dogs that the boy saw yesterday were barking .", {8: 1, 5: 4}),
    ("My sister , who lives in Rome , sings every morning .", {8: 1, 4: 3}),
    ("The keys to the old cabinet are on the table .", {6: 1}),
    ("When the rain stopped , the children ran outside .", {3: 2, 7: 6}),
    ("The painter whom the critics praised sold nothing .", {6: 1, 5: 4}),
    ("She said that the train from Paris left early .", {1: 0, 7: 4}),
    ("Neither the teacher nor the pupils noticed the snow .", {6: 2}),
    ("The book on the shelf near the windows fell down .", {8: 1}),
]
SUBJECTS = dict(PARSES)


def subject_verb(batch: attnscan.EncodedBatch) -> torch.Tensor:
    """Weight of a verb on its subject, where that is not simply the word before."""
    target = torch.zeros_like(batch.same_sentence)
    for row, one in enumerate(batch.inputs):
        for sentence, text in enumerate(one.known_pair.texts):
            for verb, subject in SUBJECTS[text].items():
                if verb - subject > 1:
                    keys = units_of_word(one, sentence, text, subject)
                    for query in units_of_word(one, sentence, text, verb):
                        target[row, query, keys] = True
    return target


def units_of_word(one: EncodedInput, sentence: int, text: str, word: int) -> list[int]:
    """What the model reads of a word: perhaps several pieces."""
    words = text.split(" ")
    start = len(" ".join([*words[:word], ""]))
    return one.units_between(sentence, start, start + len(words[word]))


def main() -> None:
    """Rank the heads for it, by a file's worth of sentences."""
    model = sys.argv[1] if len(sys.argv) > 1 else "bundled"
    ranking = attnscan.heads(
        (text for text, _ in PARSES), model=model, pattern=subject_verb, predictive="off"
    )
    print(
        ranking.to_frame(["subject-verb"], top=5)
        .drop(columns=["model", "rank"])
        .round(3)
        .to_string(index=False)
    )


if __name__ == "__main__":
    main()
