"""Pages to test: made-up attention of any size, and what stands in a page's elements."""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.api.readings import with_every_reading
from attnscan.inputs.weights import SavedWeights
from attnscan.results.attention import Attention
from attnscan.results.grid import AttentionKind
from attnscan.results.heads import HeadScores
from attnscan.results.signature import AttentionView
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"'`><svg/onload=alert(3)>",
    "<!--",
    "]]>",
    "{{ 7 * 7 }}",
    "&lt;b&gt;",
    "javascript:alert(4)",
    "\u202eevil\u202c",
    "a\x1b[31m\x00\x07b",
    "\ud83d",
    "line\u2028break",
    "שלום",
)
"""Tokens that try to run, to close an element, or to turn a line around."""


def without_neurons(attention: Attention) -> Attention:
    """The weights alone."""
    return replace(attention, query=None, key=None, scaling=())


def made_up(
    layers: int, heads: int, tokens: int | Sequence[str], *, neurons: int = 16, sharp: float = 1.0
) -> tuple[HeadScores, Attention]:
    """A result with attention made of random queries and keys, and this; larger numbers make
    sharper weights.
    """
    names = [f"word{i}" for i in range(tokens - 2)] if isinstance(tokens, int) else list(tokens)
    names = ["[CLS]", *names, "[SEP]"]
    length = len(names)
    rng = np.random.default_rng(0)
    scaling = neurons**-0.5
    query, key = rng.normal(0, sharp, (2, layers, heads, length, neurons)).astype(np.float32)
    logits = query @ key.swapaxes(-1, -2) * scaling
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    segments = tuple(int(i > length // 2) for i in range(length))
    special = (True, *[False] * (length - 2), True)
    saved = SavedWeights(weights, tuple(names), segments, special, (False,) * length)
    result = with_every_reading(classify_weights(saved, "made-up", ScanOptions(), keep=True))
    attention = replace(
        Attention.of(saved, result.sentence, (), AttentionKind.ONLY),
        query=query,
        key=key,
        scaling=(scaling,) * layers,
    )
    return replace(result, attention=attention), attention


def carrying(result: HeadScores) -> tuple[HeadScores, Attention]:
    """The same result with what its heads carry, by norms [layer, head, key] of which a few are
    small.
    """
    attention = result.kept_attention()
    norms = np.random.default_rng(1).lognormal(
        0, 1.5, (*attention.grid.shape, len(attention.tokens))
    )
    attention = replace(attention, norms=norms.astype(np.float32))
    shares = attention.carried.weights
    spread = np.where(
        shares.any(-1, keepdims=True), shares, attention.weights
    )  # saved weights may hold no empty row
    carried = with_every_reading(
        classify_weights(
            replace(attention, weights=spread).saved(), "made-up", ScanOptions(), keep=True
        )
    )
    output = np.full(attention.grid.shape, 1 / attention.grid.shape[1])
    labels_by = dict(result.labels_by)
    for reading in carried.labels_by:
        of_norms = AttentionView("carried", reading.special)
        labels_by[of_norms] = replace(
            carried.select_reading(special=reading.special).labels, reading=of_norms
        )
    scores_by = {**result.scores_by, "carried": carried.scores}
    changes = {"output": output, "attention": attention}
    return replace(result, scores_by=scores_by, labels_by=labels_by, **changes), attention


class Elements(HTMLParser):
    """A page taken apart: its tags, their attributes, the text of those that have an id, and packed
    texts by theirs.

    Before those of all inputs but the first stands the input's place.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self._name = ""
        self.feed(html)
        for place, facts in enumerate(self.data["inputs"] if "data" in self.text else ()):
            self.text |= {
                f"{place}:{name}" if place else name: text for name, text in facts["texts"].items()
            }

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self._name = attributes.get("id") or f"{tag} {attributes.get('type', '')}".strip()

    def handle_data(self, data: str) -> None:
        self.text[self._name] = self.text.get(self._name, "") + data

    @property
    def data(self) -> dict[str, Any]:
        """All that the scripts read as JSON."""
        return dict(json.loads(self.text["data"]))

    @property
    def facts(self) -> dict[str, Any]:
        """What the scripts read of the first input, and by reading what is said of every head, as
        `rows` and so on.
        """
        tables = json.loads(self.bytes_of("tables").tobytes())
        facts: dict[str, Any] = self.data["inputs"][0]
        names = ("rows", "unsure", "changed", "rests", "chance", "profiles")
        for name in names:
            facts[name] = {reading: table[name] for reading, table in tables.items()}
        return facts | {"columns": tables[facts["usual"]]["columns"]}

    def bytes_of(self, name: str) -> NDArray[np.uint8]:
        return np.frombuffer(zlib.decompress(base64.b64decode(self.text[name])), np.uint8)

    def steps_of(self, name: str) -> NDArray[np.int64]:
        """What was split into high and low bytes."""
        high, low = self.bytes_of(name).reshape(2, -1).astype(np.int64)
        return high << 8 | low

    def neurons(self, name: str, tokens: int) -> NDArray[np.float64]:
        """A head's queries and keys as the scripts make them.

        Shape: [query or key, token, neuron].
        """
        _, zero, of_query, of_key, packed = self.text[f"neurons-{name}"].split(",")
        high, low = (
            np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)
            .reshape(2, -1)
            .astype(np.int64)
        )
        steps = (high << 8 | low).reshape(2, tokens, -1) - int(zero)
        return steps * np.array([float(of_query), float(of_key)])[:, None, None]

    def numbers(self, reading: str, head: Sequence[int]) -> NDArray[np.float64]:
        """A head's numbers by a reading as the page's scripts make them. Shape: [query, key]."""
        steps = self.facts["weightSteps"]
        special = np.array(self.facts["special"])
        name = "{}-{}".format(*head)
        length = len(special)
        rows = self.steps_of(f"weights-{name}").reshape(length, length + 1)
        if reading.startswith("carried"):
            norms, *rest = self.steps_of(f"carried-{name}").reshape(length + 1, length + 1)
            products = np.where(special, 0, rows[:, 1:] * norms[1:])
            expected = (products * steps / products.sum(-1, keepdims=True).clip(1) + 0.5).astype(
                int
            )
            rows = np.array(rest)
            rows[:, 1:] = (rows[:, 1:] + expected - 128) % 2**16
        sums = rows[:, :1] / 65535
        shares = rows[:, 1:] / steps
        if reading.endswith("words"):
            return np.where(special, 0, shares)
        return np.where(special, shares, shares * sums)

    def carried(self, kind: str) -> list[tuple[int, int]]:
        """The heads whose weights or neurons are there, in the page's order."""
        names = [
            name.split("-")[1:]
            for name in self.text
            if name.startswith(f"{kind}-") and name[-1].isdigit()
        ]
        return [(int(layer), int(head)) for layer, head in names]
