"""What every page is: a file that asks nothing of any network, put together from the files in `web/`.

Texts go through the template's escaping, or as JSON in which no tag can end. The page's own policy forbids the rest.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attnscan.results.terms import Head

SIZE = 2_000_000
"""Bytes that a page takes at most, unless its heads are chosen."""
WEB = Path(__file__).parent / "web"
_SCRIPTS = ("dom", "data", "state", "model", "heads", "head", "matrix", "neuron", "table", "tree")


@dataclass(frozen=True)
class PageOptions:
    """What a page holds."""

    heads: tuple[Head, ...] | None = None
    """The heads whose weights it holds; None for all, or those of them that fit."""
    neurons: bool = True
    """Whether it holds queries and keys, too."""
    size: int | None = SIZE
    """Bytes that it takes at most, though never less than every head's scores need; None for no limit."""


@dataclass(frozen=True)
class Page:
    """A page, and what whoever made it should know."""

    html: str
    """The file's text."""
    notes: tuple[str, ...]
    """What it has no room for, a line each."""

    def __repr__(self) -> str:
        return "\n".join([f"Page of {len(self.html.encode()):,} bytes", *(f"  {note}" for note in self.notes)])


def html_of(data: Mapping[str, Any], texts: Mapping[str, str], frame: Mapping[str, Any]) -> str:
    """A page's text, of the `inputs` in `data`; with `live` there, its scripts may ask their server.

    Raises: jinja2.UndefinedError if the frame lacks something.
    """
    facts, live = data["inputs"][0], bool(data["live"])
    about = {"facts": facts, "of_pairs": not facts["tokens"], "live": live, "data": _json(data), "texts": texts}
    html: str = _template(live).render({**frame, **about})
    return html


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


@cache
def _template(live: bool) -> Any:
    """The frame, with style and scripts in it; a library for all browsers looks for their global object in `this`."""
    scripts = [(WEB / f"{name}.js").read_text("utf-8") for name in (*_SCRIPTS, *(("live",) * live), "app")]
    library = (WEB / "vendor" / "htm-preact.js").read_text("utf-8").strip()
    script = "\n".join([f"(function () {{\n{library}\n}}).call(globalThis);", *scripts])
    style = (WEB / "style.css").read_text("utf-8")
    web = {"style": Markup(style), "script": Markup(script), "style_hash": _hash(style), "script_hash": _hash(script)}
    environment = Environment(
        loader=FileSystemLoader(WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("frame.html.j2", globals=web)
