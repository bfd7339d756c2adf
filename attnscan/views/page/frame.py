"""What every page is: a file that asks nothing of any network, put together from the files in `web/`.

Texts go through the template's escaping, or as JSON in which no tag can end. The page's own policy forbids the rest.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attnscan.results.behaviour import HABITS
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.signature import IN_MEMORY, By, Signature, Special
from attnscan.safe_text import plain
from attnscan.scoring.cross import CROSS_PATTERNS
from attnscan.scoring.patterns import SHIPPED
from attnscan.views.behaviour import why_unsure
from attnscan.views.page.table import HeadsByReading, Table
from attnscan.views.palette import COLORS, HEAD_COLORS, letter, readable_on, words

SIZE = 2_000_000
"""Bytes that a page takes at most, unless its heads are chosen."""
NOTES = 600
"""Characters of what is said of what did not fit."""

_WEB = Path(__file__).parent / "web"
Kind = Literal["input", "trees", "kinds", "pairs"]
"""What a page is of: one input, some sentences with trees, kinds of attention on one input, or many pairs."""
_VIEWS = {"input": ("lines", "matrix", "gold", "head", "question"), "pairs": ("corpus",)}
_VIEWS |= {"trees": (*_VIEWS["input"], "tree"), "kinds": (*_VIEWS["input"], "kinds")}
_LIVE = ("server", "live", "predictions")
_NEUTRAL = "#64748b"  # the colour of heads without a habit, and of a user's own pattern
_BY: tuple[tuple[By, str, str], ...] = (
    ("weight", "looks", "Attention weights"),
    ("carried", "carries", "What heads carry: attention weight times the norm of the value"),
)
KINDS = {
    "encoder": "From words of the source to each other",
    "decoder": "From words of the target to those before them",
    "cross": "From words of the target to those of the source",
}
"""Of each kind of attention of an encoder-decoder, which words look at which."""
_SPECIAL: tuple[tuple[Special, str, str], ...] = (
    ("in", "in", "Special tokens are keys, as in the model"),
    ("out", "out", "Special tokens are removed, and each row is renormalised over words"),
)


@dataclass(frozen=True)
class PageOptions:
    """What a page holds."""

    heads: tuple[Head, ...] | None = None
    """The heads whose weights it holds; None for all, or those of them that fit."""
    neurons: bool = True
    """Whether it holds queries and keys, too."""
    size: int | None = SIZE
    """Bytes that it takes at most, though never less than every head's scores need; None for no limit."""
    inputs: int = 1
    """How many it holds."""


@dataclass(frozen=True)
class Page:
    """A page, and what whoever made it should know."""

    html: str
    """The file's text."""
    notes: tuple[str, ...]
    """What it has no room for, a line each."""

    def __repr__(self) -> str:
        return "\n".join([f"Page of {len(self.html.encode()):,} bytes", *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True)
class Subject:
    """What pages of every kind say of a model's heads."""

    signature: Signature
    readings: tuple[HeadsByReading, ...]
    """The last one is what the page opens on."""
    why_not: Mapping[By | Special, str]
    """Why there is no reading by weight, by what heads carry, or with special tokens in or out."""
    not_measured: Mapping[str, str]
    """Of patterns that were not looked for: why."""
    kinds: tuple[str, ...] = ()
    """The kinds of attention of an encoder-decoder that the page has, if there are several."""

    @property
    def usual(self) -> HeadsByReading:
        """What the page opens on: attention weights among words, unless something else was asked."""
        return self.readings[-1]

    @property
    def kind(self) -> AttentionKind:
        """Of which attention the heads are."""
        return self.usual.labels.scores.grid[0].kind

    @property
    def patterns(self) -> list[dict[str, Any]]:
        """What pages say of each pattern."""
        across = self.kind is AttentionKind.CROSS
        known = {pattern.id: pattern for pattern in (CROSS_PATTERNS if across else SHIPPED)}
        counts = {name: pattern.counts for name, pattern in known.items()}
        return [
            {
                "id": plain(name),
                "letter": letter(name),
                "words": words(name),
                "color": COLORS.get(name, _NEUTRAL),
                "ink": readable_on(COLORS.get(name, _NEUTRAL)),
                "counts": counts.get(name, ""),
                "whyNone": plain(self.not_measured.get(name, "")),
            }
            for name in self.usual.labels.scores.patterns
        ]

    def frame(self, left_out: Sequence[str]) -> dict[str, Any]:
        """What the template takes for pages of every kind."""
        labels = self.usual.labels
        return {
            "title": plain(self.signature.title),
            "signature": {name: plain(str(value)) for name, value in asdict(self.signature).items() if value != ()},
            "grid": labels.scores.grid.shape,
            "usual": self.usual.title,
            "why_unsure": why_unsure(labels),
            "switches": [
                *(
                    [("attention", "Attention", [(kind, kind, KINDS[kind], "") for kind in self.kinds])]
                    if self.kinds
                    else []
                ),
                ("by", "Head", [(*choice, self.why_not.get(choice[0], "")) for choice in _BY]),
                ("special", "Special tokens", [(*choice, self.why_not.get(choice[0], "")) for choice in _SPECIAL]),
            ],
            "why_not_carried": self.why_not.get("carried", ""),
            "patterns": self.patterns,
            "threshold": f"{labels.threshold:g}",
            "left_out": left_out,
        }

    def facts(self, table: Table) -> dict[str, Any]:
        """What the scripts of pages of every kind read."""
        habits = [name for name in HABITS if name not in self.usual.labels.scores.patterns]
        return {
            "grid": self.usual.labels.scores.grid.shape,
            "attention": self.kind.word,
            "letter": self.kind.letter,
            "patterns": self.patterns,
            "habits": {name: (letter(name), words(name), COLORS[name], readable_on(COLORS[name])) for name in habits},
            "none": (letter(""), words(""), _NEUTRAL, readable_on(_NEUTRAL)),
            "headColors": [(color, readable_on(color)) for color in HEAD_COLORS],
            "columns": table.columns,
            "readings": [reading.name for reading in self.readings],
            "titles": {reading.name: reading.title for reading in self.readings},
            "usual": self.usual.name,
            "drawn": self.usual.labels.drawn,
            "whyUnsure": why_unsure(self.usual.labels),
            "card": _card_command(self.signature),
        }


def _card_command(signature: Signature) -> str:
    """What prints the card of HEAD over pairs: a command or, of a model in memory, a call; empty for saved weights."""
    if signature.read_by == "file":
        return ""
    if signature.model.endswith(IN_MEMORY):
        return 'attnscan.head("HEAD", model=model, tokenizer=tokenizer)'
    return f"attnscan head HEAD --model {plain(shlex.quote(signature.model))}"


def html_of(
    frame: Mapping[str, Any], facts: Mapping[str, Any], *, kind: Kind, live: Mapping[str, Any] | None = None
) -> str:
    """A page's text; with `live`, what its scripts know of the server that they may ask.

    Raises: jinja2.UndefinedError if the frame lacks something.
    """
    template = _template(kind, live is not None, frame.get("has_neurons", False))
    if live is not None:
        facts = {**facts, "live": live}
    html: str = template.render(
        {"has_neurons": False} | dict(frame), of_pairs=kind == "pairs", live=live, data=_json(facts)
    )
    return html


def texts_of(table: Table, profiles: str) -> dict[str, str]:
    """What is packed of every head, by the ids under which the scripts find it."""
    return {"table-bytes": table.packed} | ({"profile-bytes": profiles} if profiles else {})


def left_out_of(size: int | None, room: float) -> list[str]:
    """A line where the scores of all heads do not fit, and `room` is what is left of so many bytes."""
    if size is None or room >= 0:
        return []
    return [
        f"the scores of all heads do not fit in {size / 1e6:g} MB: the page takes {at_most((size - room) / 1e6)} MB"
    ]


def at_most(error: float) -> str:
    """An error bound in two digits, rounded up.

    >>> at_most(0.00005), at_most(0.0121), at_most(0.3), at_most(1), at_most(20), at_most(0)
    ('0.00005', '0.013', '0.3', '1', '20', '0')
    """
    if error <= 0:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    text = f"{math.ceil(error * 10**decimals - 1e-9) / 10**decimals:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def _json(facts: Mapping[str, Any]) -> Markup:
    r"""JSON that can stand in a page: nothing in it can end its element or start another.

    >>> _json({"token": "</script>"})
    Markup('{"token":"\\u003c/script\\u003e"}')
    """
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)  # ASCII alone
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def without_comments(path: Path) -> str:
    """A style or script less the lines that are comments, which make a tenth of it."""
    return re.sub(r"^\s*(?:/\*(?:(?!\*/).)*\*/|//[^\n]*)\n", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


@cache
def _template(kind: Kind, live: bool, has_neurons: bool) -> Any:
    """The frame, with style and scripts in it."""
    added = _LIVE if live else ()
    views = (*_VIEWS[kind], *(("neuron",) * has_neurons))
    scripts = ("dom", "data", "state", "heads", "model", *views, "table", *added, "main")
    styles = ("style", *(["live"] if live else []), *(["tree"] if kind == "trees" else []))
    style = "\n".join(without_comments(_WEB / f"{name}.css") for name in styles)
    script = "\n".join(without_comments(_WEB / f"{name}.js") for name in scripts)
    web = {"style": Markup(style), "script": Markup(script), "style_hash": _hash(style), "script_hash": _hash(script)}
    environment = Environment(
        loader=FileSystemLoader(_WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("frame.html.j2", globals=web)
