"""The page of `report`: one HTML file that shows every head of one input and asks nothing of any network.

Its frame, style and scripts are the files in `web/`. What comes from outside goes through the template's escaping,
or as JSON in which no tag can end; the scripts set it as text alone. The page's own policy forbids the rest.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.results.heads import Head, head_name
from attnscan.results.scores import MIXED
from attnscan.results.tables import DECIMALS
from attnscan.safe_text import plain
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.page.cargo import Cargo, load, of_every_head, strongest_first
from attnscan.views.page.profiles import profiles
from attnscan.views.page.table import Table, tables
from attnscan.views.palette import COLORS, letter

SIZE = 2_000_000
"""Bytes that a page takes at most, unless its heads are chosen."""

_WEB = Path(__file__).parent / "web"
_NOTES = 600  # characters of what is said of what did not fit
_SCRIPTS = ("dom", "data", "state", "heads", "model", "lines", "head", "neuron", "table", "main")
_NEUTRAL = "#64748b"  # the colour of `mixed`, and of a user's own pattern
_PADDING = -2


@dataclass(frozen=True)
class PageOptions:
    """What a page holds."""

    heads: tuple[Head, ...] | None = None
    """The heads whose weights it holds; None for all, or those of them that fit."""
    neurons: bool = True
    """Whether it holds queries and keys, too."""
    size: int | None = SIZE
    """Bytes that it takes at most, though never less than every head's scores need at their fewest decimals; None for
    no limit."""


@dataclass(frozen=True)
class Page:
    """A page, and what whoever made it should know."""

    html: str
    """The file's text."""
    notes: tuple[str, ...]
    """What it has no room for, a line each."""

    def __repr__(self) -> str:
        return "\n".join([f"Page of {len(self.html.encode()):,} bytes", *(f"  {note}" for note in self.notes)])


def page(result: Classification, options: PageOptions | None = None) -> Page:
    """Every head of one input, to look at in a browser.

    Scores and thumbnails are there for all heads; weights, queries and keys for as many as fit. Each is there by weight
    and, where that can be had, by what heads carry, which the page opens on if the result is of that.
    Raises: OptionError if the result's attention was not kept.
    """
    options = options or PageOptions()
    attention = _without_padding(result.kept_attention())
    if result.carried is None:
        attention = replace(attention, norms=None)
    order = strongest_first(result.scores) if options.heads is None else list(options.heads)
    empty, room = of_every_head(attention), float("inf")
    for table in tables(result, carried=attention.norms is not None):
        if options.size is not None:
            room = options.size - len(_html(result, attention, options, empty, table, order, ()).encode()) - _NOTES
        if room >= 0:
            break
    cargo = load(empty, attention, order, room, neurons=options.neurons)
    notes = tuple(_left_out(cargo, table, order, options, attention, room))
    return Page(_html(result, attention, options, cargo, table, order, notes), notes)


def _html(
    result: Classification,
    attention: Attention,
    options: PageOptions,
    cargo: Cargo,
    table: Table,
    order: Sequence[Head],
    notes: Sequence[str],
) -> str:
    html: str = _template().render(
        title=plain(result.signature.model),
        signature={name: plain(str(value)) for name, value in asdict(result.signature).items()},
        grid=result.scores.grid,
        length=len(attention.tokens),
        usual=_usual_reading(result, attention),
        why_not_carried=_why_not_carried(result, attention),
        direction="rtl" if _reads_right_to_left(attention.tokens) else "ltr",
        sentences=_sentences(attention),
        patterns=_patterns(result),
        threshold=f"{result.threshold:g}",
        notes=[plain(note) for note in result.notes],
        left_out=notes,
        decimals=table.decimals if table.decimals < DECIMALS else "",
        weight_error=at_most(cargo.weight_error),
        logit_error=at_most(cargo.logit_error) if cargo.neurons else "",
        data=_json(_facts(result, attention, options, cargo, table, order)),
        table=table.packed,
        profiles=profiles(result, carried=attention.norms is not None),
        thumbnails=cargo.thumbnails,
        carried_thumbnails=cargo.carried_thumbnails,
        masks=cargo.masks,
        weights={head_name(head): each for head, each in cargo.weights.items()},
        neurons={head_name(head): each.packed for head, each in cargo.neurons.items()},
    )
    return html


def _facts(
    result: Classification,
    attention: Attention,
    options: PageOptions,
    cargo: Cargo,
    table: Table,
    order: Sequence[Head],
) -> dict[str, Any]:
    """What the scripts read."""
    size = 0 if attention.query is None else attention.query.shape[-1]
    return {
        "grid": result.scores.grid,
        "tokens": [_shown(token) for token in attention.tokens],
        "special": [sentence < 0 for sentence in attention.sentence],
        "segments": attention.segments,
        "related": [[attention.unit.index(unit) for unit in pair] for pair in result.related],  # each is one token
        "rightToLeft": _reads_right_to_left(attention.tokens),
        "patterns": _patterns(result),
        "columns": table.columns,
        "readings": table.readings,
        "usual": _usual_reading(result, attention),
        "best": head_name(order[0]),
        "side": cargo.side,
        "maskOfLayer": cargo.mask_of_layer,
        "weightSteps": cargo.weight_steps,
        "whyNoWeights": _why_no_weights(options),
        "neuron": {
            "size": size,
            "scaling": attention.scaling,
            "of": {head_name(head): {"zero": each.zero, "worth": each.worth} for head, each in cargo.neurons.items()},
            "error": cargo.logit_error,
            "whyNone": _why_no_neurons(result, attention, options),
        },
    }


def _patterns(result: Classification) -> list[dict[str, str]]:
    counts = {pattern.id: pattern.counts for pattern in PATTERNS} | {MIXED: "no pattern is far enough above chance"}
    return [
        {
            "id": plain(name),
            "letter": letter(name),
            "color": COLORS.get(name, _NEUTRAL),
            "counts": counts.get(name, ""),
            "whyNone": plain(result.not_measured.get(name, "")),
        }
        for name in (*result.scores.patterns, MIXED)
    ]


def _sentences(attention: Attention) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Each sentence's name and tokens, and which of these are special."""
    tokens = list(zip(attention.tokens, attention.sentence, attention.segments, strict=True))
    return [
        ("AB"[segment], [(_shown(token), sentence < 0) for token, sentence, of in tokens if of == segment])
        for segment in sorted(set(attention.segments))
    ]


def _left_out(
    cargo: Cargo, table: Table, order: Sequence[Head], options: PageOptions, attention: Attention, room: float
) -> list[str]:
    """What was wanted and is not there."""
    lines = []
    limit = f"in {options.size / 1e6:g} MB" if options.size else ""
    if options.size and room < 0:
        needed = at_most((options.size - room) / 1e6)
        lines.append(f"the scores of all heads do not fit {limit}: the page takes {needed} MB")
    if table.decimals < DECIMALS:
        lines.append(f"the scores of all heads have {table.decimals} decimals, as many as fit {limit}")
    if len(cargo.weights) < len(order):
        which = ": the best of each pattern" if cargo.weights else ""
        lines.append(f"the weights of {len(cargo.weights)} of {len(order)} heads fit {limit}{which}")
    if options.neurons and attention.query is not None and len(cargo.neurons) < len(cargo.weights):
        lines.append(f"the queries and keys of {len(cargo.neurons)} of {len(order)} heads fit {limit}")
    return lines


def _why_no_weights(options: PageOptions) -> str:
    if options.heads is not None:
        return "this page was made with other heads (--heads)"
    return "the heads that follow a pattern most are there, as many as fit; --size or --heads brings others"


def _usual_reading(result: Classification, attention: Attention) -> str:
    """What the page opens on."""
    return "carried" if result.signature.norm and attention.norms is not None else "weight"


def _why_not_carried(result: Classification, attention: Attention) -> str:
    """Why what heads carry is not there; empty if it is."""
    if attention.norms is not None:
        return ""
    if result.signature.read_by == "file":
        return "saved weights do not tell what heads carry"
    if result.carried is None:
        return "what heads of this architecture carry cannot be told"
    return "the norms of this input's values were not kept"


def _why_no_neurons(result: Classification, attention: Attention, options: PageOptions) -> str:
    if attention.query is None:
        if result.signature.read_by == "file":
            return "saved weights hold no queries and keys"
        return "this architecture does not show its queries and keys"
    if not options.neurons:
        return "this page was made without queries and keys (--no-neurons)"
    return "there was no room for this head's queries and keys; --size or --heads brings them"


def _without_padding(attention: Attention) -> Attention:
    """The tokens that mean something; nothing attends to the others."""
    kept = [i for i, sentence in enumerate(attention.sentence) if sentence != _PADDING]
    if len(kept) == len(attention.sentence):
        return attention
    return replace(
        attention,
        tokens=tuple(attention.tokens[i] for i in kept),
        sentence=tuple(attention.sentence[i] for i in kept),
        segments=tuple(attention.segments[i] for i in kept),
        weights=attention.weights[:, :, kept][..., kept],
        visible=attention.visible[:, kept][..., kept],
        query=None if attention.query is None else attention.query[:, :, kept],
        key=None if attention.key is None else attention.key[:, :, kept],
        norms=None if attention.norms is None else attention.norms[:, :, kept],
    )


def _shown(token: str) -> str:
    return plain(token.strip()) or "␣"


def _reads_right_to_left(tokens: Sequence[str]) -> bool:
    """Whether more letters of the text are of a right-to-left script than not."""
    kinds = [unicodedata.bidirectional(character) for token in tokens for character in token]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L") / 2  # [CLS] and its like are Latin


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


def _json(facts: dict[str, Any]) -> Markup:
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
def _template() -> Any:
    """The frame, with style and scripts in it."""
    style = (_WEB / "style.css").read_text(encoding="utf-8")
    script = "\n".join((_WEB / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    web = {"style": Markup(style), "script": Markup(script), "style_hash": _hash(style), "script_hash": _hash(script)}
    environment = Environment(
        loader=FileSystemLoader(_WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("frame.html.j2", globals=web)
