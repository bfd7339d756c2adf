"""The page of one input, alive: the page itself, and the answers that a server sends to its scripts.

An answer carries labels, scores and thumbnails. A head's own weights are sent when it is opened; the rest comes later.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscan.results.classification import Classification
from attnscan.results.grid import AttentionKind, Head
from attnscan.safe_text import plain
from attnscan.views.page.cargo import NEURON_STEPS, WEIGHT_STEPS, packed_neurons, packed_weights
from attnscan.views.page.frame import PageOptions, texts_of
from attnscan.views.page.page import InputPage, attention_of, shown
from attnscan.views.page.table import tables

if TYPE_CHECKING:
    from attnscan.results.change import Prediction

_MOST_COMPARED = 1 << 20  # tokens of one text times tokens of the other


@dataclass(frozen=True)
class LiveFacts:
    """What a live page knows of its server."""

    question: Mapping[str, Any]
    """What the page opens on, as it is asked over HTTP."""
    id: str
    """Of the answer to it."""
    models: tuple[str, ...]
    """What the models are called that can be asked."""
    available: tuple[Mapping[str, str], ...]
    """By model, of each kind of change: why it cannot be made there; empty if it can."""
    model: int = 0
    """Which of the models the page is of."""
    kinds: tuple[str, ...] = ()
    """The kinds of attention of an encoder-decoder that can be asked about, if there are several."""


def live_page(result: Classification, live: LiveFacts, words: Sequence[str]) -> str:
    """The page, opened on a first answer; `words` are the input's tokens before any was hidden.

    Raises: OptionError if its attention was not kept.
    """
    page = InputPage.of(result, PageOptions())
    if live.kinds:
        letters = [AttentionKind[kind.upper()].letter if kind != "encoder" else "" for kind in live.kinds]
        kinds = [{"attention": kind, "letter": letter} for kind, letter in zip(live.kinds, letters, strict=True)]
        page = replace(page, kind="kinds", more={"kinds": kinds}, subject=replace(page.subject, kinds=live.kinds))
    known = asdict(live) | {
        "models": [plain(name) for name in live.models],
        "available": [{kind: plain(why) for kind, why in changes.items()} for changes in live.available],
        "words": [shown(word) for word in words],
    }
    cargo, table = page.cargo_of_every_head(zlib.Z_RLE), next(tables(page.subject.readings))
    return page.html(cargo, table, (), neurons=page.attention.query is not None, live=known)


def answer_of(result: Classification, id: str, words: Sequence[str], *, of_kind: bool = False) -> dict[str, Any]:
    """What the scripts take in place of the page's first input, as JSON; `words` as for `live_page`.

    `of_kind` with what is said of the heads of a kind of attention, which may take the place of another.
    """
    page = InputPage.of(result, PageOptions())
    cargo, table = page.cargo_of_every_head(zlib.Z_RLE), next(tables(page.subject.readings))
    return {
        "id": id,
        "words": [shown(word) for word in words],
        "facts": (page.subject.facts(table) if of_kind else {}) | page.facts_of_input(cargo),
        "patterns": page.subject.patterns,
        "texts": texts_of(table, "") | cargo.texts,
        "notes": page.notes,
    }


def numbers_of(result: Classification, head: Head) -> dict[str, Any]:
    """One head's weights, what it carries, its queries and keys, in the finest steps, as JSON."""
    attention = attention_of(result)
    name, weights = head.name, packed_weights(attention, head, WEIGHT_STEPS[0])
    texts, neuron = {f"weights-{name}": weights.packed}, None
    if weights.carried:
        texts[f"carried-{name}"] = weights.carried
    if attention.query is not None:
        neurons = packed_neurons(attention, head, NEURON_STEPS[0])
        texts[f"neurons-{name}"], neuron = neurons.packed, neurons.facts
    return {"texts": texts, "neuron": neuron}


def rest_of(result: Classification, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """What takes longer: how sure labels are, habits, and what the model predicts, as JSON."""
    page = InputPage.of(result, PageOptions())
    table = next(tables(page.subject.readings))
    return {
        "texts": texts_of(table, page.profiles),
        "predictions": [prediction.as_json() for prediction in predictions],
    }


def beside_of(result: Classification, other: Classification) -> dict[str, Any]:
    """Which tokens of two answers belong together, and how far each head's rows are apart on these.

    Tokens belong together if they are the same, or stand in its place between others that are. A head's number is the
    mean over rows of the total variation distance: half the sum of what the weights differ by.
    """
    here, there = attention_of(result), attention_of(other)
    together = aligned(here.tokens, there.tokens)
    if here.grid != there.grid:
        why = "the models have other numbers of layers or heads"
        return {"aligned": together, "changed": None, "whyNotBeside": why}
    asking = [pair for pair in together if pair[0] >= here.source]
    rows, theirs = (np.array([pair[side] for pair in asking], dtype=int) for side in (0, 1))
    keys, their_keys = (np.array([pair[side] for pair in together], dtype=int) for side in (0, 1))
    apart = np.zeros(here.grid.shape)
    for layer, (own, others) in enumerate(zip(here.weights, there.weights, strict=True)):
        difference = np.abs(own[:, rows][:, :, keys] - others[:, theirs][:, :, their_keys]).sum(-1) / 2
        apart[layer] = difference.mean(-1) if len(rows) else 0
    return {"aligned": together, "changed": np.round(apart, 5).tolist(), "whyNotBeside": ""}


def aligned(here: Sequence[str], there: Sequence[str]) -> list[tuple[int, int]]:
    """The places in two texts of tokens that belong together.

    >>> aligned(["the", "cat", "sat", "down"], ["the", "dog", "sat"])
    [(0, 0), (1, 1), (2, 2)]
    >>> aligned(["a", "b"], ["a", "x", "y"])
    [(0, 0)]
    >>> aligned(["a", "b", "c"], ["x", "b", "c"])
    [(0, 0), (1, 1), (2, 2)]
    """
    shorter = min(len(here), len(there))
    start = next((at for at in range(shorter) if here[at] != there[at]), shorter)
    rest = shorter - start
    end = next((at for at in range(rest) if here[-1 - at] != there[-1 - at]), rest)
    between, others = here[start : len(here) - end], there[start : len(there) - end]
    together = [(at, at) for at in range(start)]
    if len(between) * len(others) <= _MOST_COMPARED:
        codes = SequenceMatcher(None, between, others, autojunk=False).get_opcodes()
    else:  # which would take seconds
        codes = [("replace", 0, len(between), 0, len(others))]
    for kind, first, last, other, stop in codes:
        if kind == "equal" or (kind == "replace" and last - first == stop - other):
            together += zip(range(start + first, start + last), range(start + other, start + stop), strict=True)
    return together + [(len(here) - at, len(there) - at) for at in range(end, 0, -1)]
