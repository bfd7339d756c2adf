"""The page of one input, alive: the page itself, and the answers that a server sends to its scripts.

An answer carries labels, scores, profiles, thumbnails and predictions. A head's own weights are sent when it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnscan.results.heads import HeadScores
from attnscan.results.terms import AttentionKind, Head
from attnscan.text import plain
from attnscan.views.page.cargo import NEURON_STEPS, WEIGHT_STEPS, packed_neurons, packed_weights
from attnscan.views.page.page import PageInput, attention_of, render_page, shown

if TYPE_CHECKING:
    from attnscan.results.predictions import Prediction


def live_page(result: HeadScores, server: Mapping[str, Any], words: Sequence[str], said: Sequence[Prediction]) -> str:
    """The page, opened on a first answer; `words` are the input's tokens before any was hidden, `said` is
    what the model predicts.

    What it knows of its `server`: the `question` that it opens on, as it is asked over HTTP, the `id` of the answer,
    the `models` that can be asked and which one the page is of (`model`), why a kind of change cannot be made in each
    (`available`), and the `kinds` of attention of an encoder-decoder, if there are several.
    Raises: OptionError if its attention was not kept.
    """
    held, kinds = _input_of(result, of_kind=bool(server["kinds"])), list(server["kinds"])
    live = {name: server[name] for name in ("question", "id", "model")} | _told(words, said)
    live["models"] = [plain(name) for name in server["models"]]
    live["available"] = [{change: plain(why) for change, why in of.items()} for of in server["available"]]
    letters = {kind: "" if kind == "encoder" else AttentionKind[kind.upper()].letter for kind in kinds}
    others = [{"key": kind, "letter": letters[kind]} for kind in kinds if kind != held.facts["key"]]
    return render_page([held], (), live=live, others=others)


def answer_of(
    result: HeadScores, id: str, words: Sequence[str], said: Sequence[Prediction], *, of_kind: bool = False
) -> dict[str, Any]:
    """What the scripts take in place of the page's first input, as JSON; `words` and `said` as for `live_page`.

    `of_kind` where the kinds of attention of an encoder-decoder can be asked about.
    """
    held = _input_of(result, of_kind=of_kind)
    return {"id": id, "facts": held.facts, "texts": held.texts, **_told(words, said)}


def _input_of(result: HeadScores, *, of_kind: bool) -> PageInput:
    held = PageInput.of(result)
    return replace(held, facts=held.facts | {"key": held.facts["attention"]}) if of_kind else held


def _told(words: Sequence[str], said: Sequence[Prediction]) -> dict[str, Any]:
    return {"words": [shown(word) for word in words], "predictions": [prediction.as_json() for prediction in said]}


def numbers_of(result: HeadScores, head: Head) -> dict[str, Any]:
    """One head's weights, what it carries, its queries and keys, in the finest steps, as JSON."""
    attention = attention_of(result)
    texts = packed_weights(attention, head, WEIGHT_STEPS[0]).texts
    if attention.query is not None:
        texts |= packed_neurons(attention, head, NEURON_STEPS[0]).texts
    return {"texts": texts}
