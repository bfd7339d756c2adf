"""Classes of keys, and the habits that are unions of them. No numpy."""

SPECIAL_CLASSES = ("start", "middle", "end")  # special tokens before, between and behind the words
WORD_CLASSES = (
    "itself",
    "identical",
    "cross-sentence",
    "next",
    "previous",
    "next-2-3",
    "previous-2-3",
    "punctuation",
    "next-4-8",
    "previous-4-8",
    "later",
    "earlier",
    "elsewhere",
)
"""Where a word's attention on words goes. `elsewhere` is the rest of the other sentence."""
CLASSES = SPECIAL_CLASSES + WORD_CLASSES  # a key is of the first class that fits
_CLASS_SUMS = (*CLASSES, "frequent", "rare", "even", "same-keys")
"""What is summed: attention on each class, and on frequent and on rare words.

And what a row has in common with two others: an even one, and the mean row of the input's other
words."""
N_CLASS_SUMS = len(_CLASS_SUMS)

_AFTER = "next next-2-3 next-4-8 later"
_BEFORE = "previous previous-2-3 previous-4-8 earlier"
_UNIONS = {
    "itself": "itself",
    "identical": "identical",
    "cross-sentence": "cross-sentence",
    "next-word": "next",
    "next-3": "next next-2-3",
    "next-8": "next next-2-3 next-4-8",
    "previous-word": "previous",
    "previous-3": "previous previous-2-3",
    "previous-8": "previous previous-2-3 previous-4-8",
    "within-1": "next previous",
    "within-3": "next next-2-3 previous previous-2-3",
    "after": _AFTER,
    "before": _BEFORE,
    "punctuation": "punctuation",
    "own-sentence": f"itself identical {_AFTER} {_BEFORE}",
    "other-sentence": "cross-sentence elsewhere",
    "frequent-words": "frequent",
    "rare-words": "rare",
    "even": "even",
    "same-keys": "same-keys",
}
HABITS = {name: tuple(map(_CLASS_SUMS.index, union.split())) for name, union in _UNIONS.items()}
"""What may set a head apart: its name in every table, and the sums that it consists of.

It has the name of a pattern where it means the same keys."""
