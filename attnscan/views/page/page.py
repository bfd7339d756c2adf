"""The page of `report` and of `serve`: one HTML file that shows every head.

It asks nothing of any network.

Its scripts read JSON: of each input facts, and packed numbers by their ids. Texts from outside go
through the template's escaping, or as JSON in which no tag can end; the page's own policy forbids
all other scripts.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from attnscan.errors import OptionError
from attnscan.results.attention import Attention, check_drawn
from attnscan.results.grid import Head, Heads
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Prediction
from attnscan.results.syntax import InputsRead, ReadInput, Syntax
from attnscan.text import plain
from attnscan.views.behaviour import ranked_by, summary
from attnscan.views.page import arrays
from attnscan.views.page.facts import facts_of, strongest_first, token_text
from attnscan.views.page.scripts import join_modules

SIZE = 2_000_000
"""Bytes that a page takes at most, unless its heads are chosen."""
WEB = Path(__file__).parent / "web"
_FRAME = Markup(
    '<iframe sandbox="allow-scripts allow-downloads" title="Every head" '
    'style="width:100%;height:900px;border:0" srcdoc="{}"></iframe>'
)
_NOTES = 600  # bytes of the notes on what did not fit
_AROUND = 40  # bytes around each packed text
_WEIGHTS_SHARE = 2 / 3  # of the room, where queries and keys want some, too


@dataclass(frozen=True)
class PageOptions:
    """What a page holds."""

    heads: Heads | None = None  # whose weights it holds; None for all, or those of them that fit
    neurons: bool = True  # whether it holds queries and keys, too
    size: float | None = None
    """Bytes that it takes at most, though never less than every head's scores need.

    None for 2 MB, or for as many as the named heads take."""


@dataclass(frozen=True)
class Page:
    """A page, and what whoever made it should know."""

    html: str  # the file's text
    notes: tuple[str, ...]  # what it has no room for, a line each

    def __repr__(self) -> str:
        return "\n".join(
            [f"Page of {len(self.html.encode()):,} bytes", *(f"  {note}" for note in self.notes)]
        )

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for a notebook.

        The frame may run its scripts, save its table, and reach nothing else.
        """
        return str(_FRAME.format(self.html))


@dataclass(frozen=True)
class _Input:
    """What a page shows at a time: one input by one kind of attention, or many pairs."""

    result: HeadScores
    facts: dict[str, Any]  # what the scripts read; `texts` in it are packed numbers by their ids
    attention: Attention | None  # None of many pairs
    order: Sequence[Head]  # whose numbers are wanted, the best first; none of many pairs


def page(result: HeadScores | Sequence[HeadScores], options: PageOptions | None = None) -> Page:
    """Every head on one input or over many pairs, to look at in a browser.

    An encoder-decoder has an input for each kind of attention. Of one input there are scores and
    thumbnails of all heads, and weights, queries and keys of as many as fit; over many pairs
    labels, how sure they are, and scores and shares with errors. It opens on the result's own
    reading: attention weights among words, unless something else was asked.

    Raises: OptionError if a classification's attention was not kept, a ranking has no labels, or
    heads of many pairs are named; SelectionError for heads that are not there.
    """
    results = [result] if isinstance(result, HeadScores) else result
    options = options or PageOptions()
    inputs = [_input_of(scores, options, inputs=len(results)) for scores in results]
    return _fill(inputs, options)


def links_page(read: InputsRead, options: PageOptions) -> Page:
    """Every head on some sentences, and what heads follow in all of them.

    Each sentence has its dependency tree, or its other links, over the head view. The page holds no
    queries and keys.
    Raises: as `page`.
    """
    options = replace(options, neurons=False)
    order = strongest_first(read.inputs[0].result)
    inputs = []
    for linked in read.inputs:
        page_input = _input_of(linked.result, options, order, inputs=len(read.inputs))
        _add_links(page_input.facts, linked)
        inputs.append(page_input)
    syntax = read.syntax
    followed = [_followed(syntax, head) for head in syntax.grid]
    reading = f"{syntax.count_inputs()}, {syntax.signature.reading}"
    return _fill(inputs, options, treebank={"heads": followed, "of": reading})


def _add_links(facts: dict[str, Any], linked: ReadInput) -> None:
    """Add an input's links to its facts, and which word each word attends to most."""
    pair = linked.pair
    facts["key"] = str(linked.number)
    facts["tree"] = {
        "text": " / ".join(plain(text) for text in pair.texts),
        "words": [token_text(word) for word in linked.words],
        "wordOf": linked.owners,
        "arcs": [
            {"from": link.query, "to": link.target, "relation": plain(link.relation)}
            for link in linked.links
        ],
        "isTree": linked.has_tree,
    }
    for by in linked.result.scores_by:
        if by not in facts["whyNot"]:
            most_attended = (linked.most_attended(by) + 1).astype(np.uint16)
            facts["texts"][f"most-{by}"] = arrays.pack(most_attended)


def _followed(syntax: Syntax, head: Head) -> str:
    """What a head follows in a treebank, or in links, with its numbers."""
    if head not in syntax.main_rows:
        return "no relation beyond fixed rules"
    best = syntax.main_rows[head]
    rule = f"the rule '{syntax.rule[best]}' for {syntax.rule_accuracy[best]:.2f}"
    row = plain(f"{syntax.rows[best].relation} {syntax.rows[best].direction}".replace("->", " → "))
    accuracy = syntax.accuracy[(*head.place, best)]
    return f"{plain(syntax.statements[head])}; {row} right for {accuracy:.2f}, {rule}"


def answer_of(
    result: HeadScores, id: str, words: Sequence[str], predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """What a live page takes in place of its first input, as JSON: all but single heads' numbers.

    `words` are the input's tokens before any was hidden.
    Raises: OptionError if the attention was not kept.
    """
    facts = _input_of(result, PageOptions()).facts
    reason = "the server did not send them; reload the page"
    facts["whyNot"]["weights"] = reason
    if facts["neurons"]:
        facts["whyNot"]["neurons"] = reason
    return {
        "id": id,
        "facts": facts,
        "words": [token_text(word) for word in words],
        "predictions": [prediction.as_json() for prediction in predictions],
    }


def live_page(result: HeadScores, live: Mapping[str, Any], kinds: Sequence[str]) -> str:
    """The page with a server behind it.

    It is opened on the first answer, which stands in what it knows to be `live`. The `kinds` are
    those of an encoder-decoder's attention, if the server has several.
    """
    facts = live["facts"]
    unread = [
        {"key": kind, "letter": "" if kind == "encoder" else kind[0]}
        for kind in kinds
        if kind != facts["key"]
    ]
    return _render(result, [facts, *unread], live={**live, "facts": None})


def numbers_of(result: HeadScores, head: Head) -> dict[str, Any]:
    """One head's weights, what it carries, its queries and keys, in the finest steps, as JSON."""
    attention = result.kept_attention()
    texts = arrays.pack_weights(attention, head, arrays.WEIGHT_STEPS[0])
    if attention.query is not None:
        texts |= arrays.pack_neurons(attention, head, arrays.NEURON_STEPS[0])
    return {"texts": texts}


def _input_of(
    result: HeadScores,
    options: PageOptions,
    order: Sequence[Head] | None = None,
    *,
    inputs: int = 1,
) -> _Input:
    """Everything of an input but single heads' numbers; `inputs` share a page.

    Raises: as `page`.
    """
    attention = result.kept_attention() if result.is_one_input else None
    if attention is not None:
        if attention.chosen is not None and attention.chosen.heads is not None:
            reason = "this result has kept the attention of some heads alone"
            raise OptionError(reason, "give one of `classify`")
        check_drawn(len(attention.rows))
    elif options.heads is not None:
        raise OptionError("a page of many pairs holds no head's weights", "leave out heads")
    if options.heads is not None:
        order = result.grid.select(options.heads)
    order = order or strongest_first(result)
    facts = facts_of(result, attention, inputs) | {"best": order[0].name}
    if options.heads is not None:
        facts["whyNot"]["weights"] = "the page was made with other heads"
    if not options.neurons and attention is not None and attention.query is not None:
        facts["whyNot"]["neurons"] = "this page was made without queries and keys (--no-neurons)"
    return _Input(
        result=result,
        facts=facts,
        attention=attention,
        order=order if attention is not None else (),
    )


def _fill(inputs: Sequence[_Input], options: PageOptions, **data: Any) -> Page:
    """The page of some inputs, opened on the first one.

    It has as many heads' numbers as fit, the best of each input first.
    """
    size = options.size
    if not size:
        size = SIZE if options.heads is None else float("inf")
    result = inputs[0].result
    facts = [page_input.facts for page_input in inputs]
    needed = len(_render(result, facts, **data).encode()) + _NOTES
    room = size - needed
    heads = list(_by_rank(inputs))
    wants_neurons = options.neurons and any(page_input.facts["neurons"] for page_input, _ in heads)
    weights_room = room * _WEIGHTS_SHARE if wants_neurons else room
    weights, steps, taken = _add_finest(
        arrays.WEIGHT_STEPS, heads, weights_room, arrays.pack_weights
    )
    with_neurons = heads[:weights] if wants_neurons else []
    neurons, _, _ = _add_finest(
        arrays.NEURON_STEPS, with_neurons, room - taken, arrays.pack_neurons
    )
    for input_facts in facts:
        input_facts["weightSteps"] = steps
    notes = []
    limit = f"of {len(heads):,} heads fit in {size / 1e6:g} MB"
    if weights < len(heads):
        which = ": the best of each pattern" if weights else ""
        notes.append(f"the weights of {weights:,} {limit}{which}")
    if wants_neurons and neurons < weights:
        notes.append(f"the queries and keys of {neurons:,} {limit}")
    if needed > size:
        subject = f"{len(inputs)} inputs" if len(inputs) > 1 else "the scores of all heads"
        taken_in_all = f"the page takes {at_most(needed / 1e6)} MB"
        notes.append(f"{subject} do not fit in {size / 1e6:g} MB: {taken_in_all}")
    return Page(_render(result, facts, notes, **data), tuple(notes))


def _by_rank(inputs: Sequence[_Input]) -> Iterator[tuple[_Input, Head]]:
    """The best head of each input, then each one's second, and so on."""
    for rank in zip_longest(*(page_input.order for page_input in inputs)):
        for page_input, head in zip(inputs, rank, strict=True):
            if head is not None:
                yield page_input, head


def _add_finest(
    all_steps: Sequence[int],
    heads: Sequence[tuple[_Input, Head]],
    room: float,
    pack: Callable[..., dict[str, str]],
) -> tuple[int, int, int]:
    """Add heads' numbers in the finest steps in which all fit into `room` bytes.

    If all fit in none, the first ones are added in the coarsest. Returns how many heads were
    added, the steps, and how many bytes they take.
    """
    for steps in all_steps:
        packed: list[dict[str, str]] = []
        taken = 0
        for page_input, head in heads:
            texts = pack(page_input.attention, head, steps)
            size = sum(len(text) + _AROUND for text in texts.values())
            if taken + size > room:
                break
            packed.append(texts)
            taken += size
        else:
            break
    for (page_input, _), texts in zip(heads, packed, strict=False):
        page_input.facts["texts"] |= texts
    return len(packed), steps, taken


def _render(
    result: HeadScores, inputs: Sequence[Mapping[str, Any]], notes: Sequence[str] = (), **data: Any
) -> str:
    """The page's text, opened on the first of the `inputs`' facts.

    With `live` data, its scripts may ask their server.
    Raises: jinja2.UndefinedError if the template lacks something.
    """
    lines = result.notes if result.is_one_input else (summary(result), ranked_by(result))
    signature = asdict(result.signature).items()
    errors = list(_logit_errors(inputs))
    return _template("live" in data).render(
        data={"live": None, "treebank": None, **data, "inputs": inputs},
        facts=inputs[0],
        of_pairs=not result.is_one_input,
        left_out=notes,
        notes=[plain(line) for line in lines if line],
        signature={name: plain(str(value)) for name, value in signature if value != ()},
        threshold=f"{result.labels.threshold:g}",
        weight_error=at_most(0.5 / inputs[0].get("weightSteps", 1) + 0.5 / arrays.SUM_STEPS),
        logit_error=at_most(max(errors)) if errors else "",
    )


def _logit_errors(inputs: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """The largest error of a logit, of each head with queries and keys."""
    for facts in inputs:
        for name, text in facts.get("texts", {}).items():
            if name.startswith("neurons-"):
                yield float(text.partition(",")[0])


@cache
def _template(live: bool) -> Template:
    """The frame, with style and scripts in it.

    A library for all browsers looks for their global object in `this`.
    """
    library = (WEB / "vendor" / "htm-preact.js").read_text("utf-8").strip()
    entry = "live" if live else "offline"
    modules = join_modules(entry, lambda name: (WEB / f"{name}.js").read_text("utf-8"))
    script = f"(function () {{\n{library}\n}}).call(globalThis);\n{modules}"
    environment = Environment(
        loader=FileSystemLoader(WEB),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters["sha256"] = _sha256
    web = {
        "live": live,
        "style": Markup((WEB / "style.css").read_text("utf-8")),
        "script": Markup(script),
    }
    return environment.get_template("frame.html.j2", globals=web)


def _sha256(text: str) -> str:
    """A text's hash, as the page's policy names it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def at_most(error: float) -> str:
    """An error bound in two digits, rounded up.

    >>> at_most(0.00005), at_most(0.0121), at_most(0.3), at_most(1), at_most(20), at_most(0)
    ('0.00005', '0.013', '0.3', '1', '20', '0')
    """
    two_digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(error)))
    return f"{two_digits.normalize():f}"
