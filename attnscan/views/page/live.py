"""The page of one input, alive: the page itself, and the answers that a server sends to its scripts.

An answer carries labels, scores, profiles, thumbnails and predictions. A head's own weights are sent when it is opened.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from attnscan.results.grid import AttentionKind, Head
from attnscan.results.heads import HeadScores
from attnscan.safe_text import plain
from attnscan.views.page.cargo import NEURON_STEPS, WEIGHT_STEPS, packed_neurons, packed_weights
from attnscan.views.page.frame import PageOptions, texts_of
from attnscan.views.page.page import InputPage, attention_of, shown
from attnscan.views.page.table import table_of

if TYPE_CHECKING:
    from attnscan.results.change import Prediction


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


def live_page(result: HeadScores, live: LiveFacts, words: Sequence[str], said: Sequence[Prediction]) -> str:
    """The page, opened on a first answer; `words` are the input's tokens before any was hidden, `said` is
    what the model predicts.

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
        "predictions": [prediction.as_json() for prediction in said],
    }
    cargo, table = page.cargo_of_every_head(zlib.Z_RLE), table_of(page.subject.readings)
    return page.html(cargo, table, (), neurons=page.attention.query is not None, live=known)


def answer_of(
    result: HeadScores, id: str, words: Sequence[str], said: Sequence[Prediction], *, of_kind: bool = False
) -> dict[str, Any]:
    """What the scripts take in place of the page's first input, as JSON; `words` and `said` as for `live_page`.

    `of_kind` with what is said of the heads of a kind of attention, which may take the place of another.
    """
    page = InputPage.of(result, PageOptions())
    cargo, table = page.cargo_of_every_head(zlib.Z_RLE), table_of(page.subject.readings)
    return {
        "id": id,
        "words": [shown(word) for word in words],
        "facts": (page.subject.facts(table) if of_kind else {}) | page.facts_of_input(cargo),
        "patterns": page.subject.patterns,
        "texts": texts_of(table, page.profiles) | cargo.texts,
        "predictions": [prediction.as_json() for prediction in said],
        "notes": page.notes,
    }


def numbers_of(result: HeadScores, head: Head) -> dict[str, Any]:
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
