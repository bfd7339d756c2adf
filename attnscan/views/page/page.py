"""The page of `report`: one HTML file that shows every head, and asks nothing of any network."""

from __future__ import annotations

import shlex
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from attnscan.errors import OptionError
from attnscan.results.attention import PADDING, Attention, check_drawn
from attnscan.results.heads import HeadScores
from attnscan.results.scores import HABITS
from attnscan.results.terms import IN_MEMORY, AttentionKind, Head, Heads, Signature
from attnscan.scoring.cross import ALIGNED, CROSS_PATTERNS
from attnscan.scoring.patterns import SHIPPED
from attnscan.text import plain
from attnscan.views.behaviour import ranked_by, summary, why_unsure
from attnscan.views.page.cargo import WEIGHT_STEPS, compressed, heads_that_fit, masks_of, strongest_first, thumbnails_of
from attnscan.views.page.frame import SIZE, Page, PageOptions, at_most, html_of
from attnscan.views.page.table import READINGS, frame_of, packed_table, results_by_reading
from attnscan.views.palette import COLORS, HEAD_COLORS, letter, readable_on, words

_NOTES = 600  # characters of what is said of what did not fit
_NEUTRAL = "#64748b"  # the colour of heads without a habit, and of a user's own pattern


@dataclass(frozen=True)
class PageInput:
    """One input on a page: what its scripts read, and packed texts by the ids under which they find them."""

    result: HeadScores
    attention: Attention | None
    """With norms only where what heads carry is on the page; None of many pairs."""
    order: Sequence[Head]
    """Which heads' weights are there first."""
    facts: dict[str, Any]
    texts: dict[str, str]

    @classmethod
    def of(cls, result: HeadScores, heads: Sequence[Head] | None = None, *, inputs: int = 1) -> PageInput:
        """With everything but single heads' weights; `inputs` share a page.

        Raises: OptionError if a classification's attention was not kept, or a ranking has no labels.
        """
        attention = attention_of(result) if result.of_input else None
        results = results_by_reading(result, carried=attention is not None and attention.norms is not None)
        order = _order(result, is_of_pairs=attention is None) if heads is None else heads
        facts, texts = _facts_of_heads(result, results), {"table-bytes": packed_table(results)}
        facts |= {"best": order[0].name, "whyNot": _why_not(result, attention), "tokens": []}
        if attention is not None:
            small = thumbnails_of(attention, {name: READINGS[name] for name in results}, inputs)
            texts |= {f"thumbnails-of-{name}": compressed(values) for name, values in small.items()}
            masks, mask_of_layer = masks_of(attention)
            texts |= {f"mask-{number}": mask for number, mask in enumerate(masks)}
            facts |= _facts_of_tokens(result, attention)
            facts["sides"] = {name: max(values.shape[2:]) for name, values in small.items()}
            facts["maskOfLayer"] = mask_of_layer
        return cls(result, attention, order, facts, texts)


def page(result: HeadScores | Sequence[HeadScores], options: PageOptions | None = None) -> Page:
    """Every head on one input or over many pairs, to look at in a browser; of an encoder-decoder, by kind of attention.

    Of one input there are scores and thumbnails of all heads, and weights, queries and keys of as many as fit; over
    many pairs labels, how sure they are, and scores and shares with errors. It opens on the result's own
    reading: attention weights among words, unless something else was asked.
    Raises: OptionError if a classification's attention was not kept, or a ranking has no labels.
    """
    options, results = options or PageOptions(), [result] if isinstance(result, HeadScores) else result
    inputs = [PageInput.of(result, options.heads, inputs=len(results)) for result in results]
    if len(inputs) > 1:
        inputs = [replace(kind, facts=kind.facts | {"key": kind.facts["attention"]}) for kind in inputs]
    return page_of(inputs, options)


def page_of(inputs: Sequence[PageInput], options: PageOptions, **data: Any) -> Page:
    """The page of some inputs, opened on the first one, with as many heads' weights as fit, the same share of each."""
    size, room = options.size, float("inf")
    if size is not None:
        room = size - len(render_page(inputs, (), **data).encode()) - _NOTES
    parts = [len(held.facts["tokens"]) ** 2 + 400 for held in inputs]  # weights of few tokens take room, too
    loaded = [_load(held, options, room * part / sum(parts)) for held, part in zip(inputs, parts, strict=True)]
    notes = _left_out(loaded, options)
    html = render_page(loaded, notes, **data)
    if size is not None and (needed := len(html.encode())) > size:
        what = f"{len(inputs)} inputs" if len(inputs) > 1 else "the scores of all heads"
        notes.append(f"{what} do not fit in {size / 1e6:g} MB: the page takes {at_most((needed + _NOTES) / 1e6)} MB")
        html = render_page(loaded, notes, **data)
    return Page(html, tuple(notes))


def render_page(inputs: Sequence[PageInput], left_out: Sequence[str], **data: Any) -> str:
    """A page's text. Texts of all inputs but the first go by the input's place, a colon and their own ids."""
    first = inputs[0]
    texts = {f"{place}:{name}" if place else name: t for place, of in enumerate(inputs) for name, t in of.texts.items()}
    lines = first.result.notes if first.result.of_input else (summary(first.result), ranked_by(first.result))
    signature = asdict(first.result.signature)
    frame = {
        "signature": {name: plain(str(value)) for name, value in signature.items() if value != ()},
        "threshold": f"{first.result.labels.threshold:g}",
        "left_out": left_out,
        "notes": [plain(line) for line in lines if line],
        "weight_error": at_most(max(0.5 / of.facts.get("weightSteps", 1) for of in inputs) + 0.5 / 65535),
        "logit_error": at_most(max(of.facts.get("neuron", {}).get("error", 0) for of in inputs)),
    }
    data = {"live": None, "treebank": None, **data}
    data["inputs"] = [of.facts for of in inputs] + data.pop("others", [])
    return html_of(data, texts, frame)


def _load(held: PageInput, options: PageOptions, room: float) -> PageInput:
    """Add what goes into `room` characters."""
    attention = held.attention
    if attention is None:
        return held
    wanted = options.neurons and attention.query is not None
    weights, neurons = heads_that_fit(attention, held.order, room, neurons=wanted)
    facts, texts = held.facts | {"weightSteps": weights.steps}, held.texts | weights.texts
    if options.heads is not None:
        facts["whyNoWeights"] = "the page was made with other heads"
    facts["neuron"] = dict(facts["neuron"])
    if attention.query is not None:
        facts["neuron"]["whyNone"] = "there was no room for this head's queries and keys; --size or --heads brings them"
        if not options.neurons:
            facts["neuron"]["whyNone"] = "this page was made without queries and keys (--no-neurons)"
    if neurons is None or not neurons.texts:
        facts["neuron"]["size"] = 0
    else:
        texts |= neurons.texts
        facts["neuron"] |= {"error": neurons.error, "digits": 2 if neurons.error < 0.01 else 1}
    return replace(held, facts=facts, texts=texts)


def _left_out(inputs: Sequence[PageInput], options: PageOptions) -> list[str]:
    """What was wanted of the attention and has no room, a line each."""
    wanted = sum(len(held.order) for held in inputs if held.attention is not None)
    fitting = Counter(name.partition("-")[0] for held in inputs for name in held.texts)
    weights, neurons, limit = fitting["weights"], fitting["neurons"], f"in {(options.size or 0) / 1e6:g} MB"
    has_neurons = any(held.attention is not None and held.attention.query is not None for held in inputs)
    lines = []
    if weights < wanted:
        which = ": the best of each pattern" if weights else ""
        lines.append(f"the weights of {weights:,} of {wanted:,} heads fit {limit}{which}")
    if options.neurons and has_neurons and neurons < weights:
        lines.append(f"the queries and keys of {neurons:,} of {wanted:,} heads fit {limit}")
    return lines


def page_options(result: HeadScores, heads: Heads | None, *, neurons: bool, megabytes: float | None) -> PageOptions:
    """What a result's page is to hold: some `heads` in any size, or else as many as fit into so many megabytes.

    Raises: OptionError for heads of many pairs, or if attention was not kept; SelectionError for heads not there.
    """
    size = None if megabytes is None else int(megabytes * 1_000_000)
    if heads is None:
        return PageOptions(None, neurons, size or SIZE)
    if not result.of_input:
        raise OptionError("a page of many pairs holds no head's weights", "leave out heads")
    return PageOptions(tuple(result.kept_attention().grid.select(heads)), neurons, size)


def attention_of(result: HeadScores) -> Attention:
    """An input's attention, with norms only where what heads carry is known.

    Raises: OptionError if it was not kept, or of some heads alone; SelectionError if it has too many tokens.
    """
    attention = result.kept_attention()
    if attention.chosen is not None and attention.chosen.heads is not None:
        raise OptionError("this result has kept the attention of some heads alone", "give one of `classify`")
    check_drawn(len(attention.rows))
    return attention if "carried" in result.scores_by else replace(attention, norms=None)


def _order(result: HeadScores, *, is_of_pairs: bool) -> list[Head]:
    """Heads, strongest first; over pairs one with a pattern's label comes first, on which the page opens."""
    order = strongest_first(result.table, result.grid)
    return sorted(order, key=lambda head: not result.labels.follows[head.place]) if is_of_pairs else order


def _facts_of_heads(result: HeadScores, results: Mapping[str, HeadScores]) -> dict[str, Any]:
    """What the scripts read of a model's heads, and of what these may do."""
    signature, grid, patterns = result.signature, result.grid, result.scores.patterns
    kind = grid[0].kind
    counts = {pattern.id: pattern.counts for pattern in (CROSS_PATTERNS if kind is AttentionKind.CROSS else SHIPPED)}
    not_measured = result.not_measured
    if not result.of_input and signature.predictive == "off":
        not_measured = {"predictive": "switched off"}
    described = [_kind(name, counts.get(name, ""), not_measured.get(name, "")) for name in patterns]
    habits = [_kind(name, f"A habit: attention on {words(name)}") for name in HABITS if name not in patterns]
    return {
        "title": plain(signature.title),
        "subtitle": signature.counts,
        "device": plain(f"{signature.device} {signature.dtype}"),
        "key": "",
        "attention": kind.word,
        "letter": kind.letter,
        "grid": grid.shape,
        "heads": [head.name for head in grid],
        "patterns": described,
        "habits": [*habits, _kind("", "Nothing tells them from the average head") | {"id": "none"}],
        "headColors": [(color, readable_on(color)) for color in HEAD_COLORS],
        "columns": list(frame_of(result)),
        "readings": list(results),
        "titles": {name: f"what each head does, {of.reading}" for name, of in results.items()},
        "usual": list(results)[-1],
        "drawn": result.labels.drawn,
        "whyUnsure": why_unsure(result.labels),
        "card": _card_command(signature),
    }


def _kind(name: str, counts: str, why_none: str = "") -> dict[str, str]:
    """How a pattern or habit is shown, and what it counts."""
    color = COLORS.get(name, _NEUTRAL)
    style = {"letter": letter(name), "words": words(name), "color": color, "ink": readable_on(color)}
    return {"id": plain(name), **style, "counts": counts, "whyNone": plain(why_none)}


def _card_command(signature: Signature) -> str:
    """What prints the card of HEAD over pairs: a command or, of a model in memory, a call; empty for saved weights."""
    if signature.read_by == "file":
        return ""
    if signature.model.endswith(IN_MEMORY):
        return 'attnscan.head("HEAD", model=model, tokenizer=tokenizer)'
    return f"attnscan head HEAD --model {plain(shlex.quote(signature.model))}"


def _why_not(result: HeadScores, attention: Attention | None) -> dict[str, str]:
    """Why there is no reading by weight, by what heads carry, or with special tokens in or out."""
    if attention is None:
        made = f"this page was made {result.reading}; make one with"
        by = "weight" if result.reading.carried else "carried"
        special = "in" if result.reading.among_words else "out"
        return {by: f"{made} --by {by}", special: f"{made} --special {special}"}
    if attention.norms is not None:
        return {}
    if result.signature.read_by == "file":
        return {"carried": "saved weights do not hold what heads carry"}
    if "carried" not in result.scores_by:
        return {"carried": "what heads of this architecture carry cannot be computed"}
    return {"carried": "the norms of this input's values were not kept"}


def _facts_of_tokens(result: HeadScores, attention: Attention) -> dict[str, Any]:
    """What the scripts read of an input's tokens, in the finest steps."""
    passage = attention.passage
    tokens = [attention.tokens[place] for place in passage]
    total = sum(sentence != PADDING for sentence in attention.sentence)
    numbers = {attention.unit[place]: number for number, place in enumerate(passage)} if attention.unit else {}
    is_saved = result.signature.read_by == "file"
    lacking = "saved weights hold no" if is_saved else "this architecture does not show its"
    return {
        "subtitle": f"{total} tokens"
        if len(passage) == total
        else f"tokens {passage[0]} to {passage[-1]} of {total:,}",
        "tokens": [shown(token) for token in tokens],
        "special": [attention.sentence[place] < 0 for place in passage],
        "segments": [attention.segments[place] for place in passage],
        "related": [[numbers[u] for u in pair] for pair in result.related if numbers.keys() >= set(pair)],
        "rightToLeft": _reads_right_to_left(tokens),
        "source": len(attention.asked) if attention.source else 0,
        "gold": _gold_links(result, attention),
        "weightSteps": WEIGHT_STEPS[0],
        "whyNoWeights": "the page holds the heads that follow a pattern most, as many as fit",
        "neuron": {
            "size": 0 if attention.query is None else attention.query.shape[-1],
            "scaling": attention.scaling,
            "digits": 2,
            "error": 0.0,
            "whyNone": f"{lacking} queries and keys",
        },
    }


def _gold_links(result: HeadScores, attention: Attention) -> list[list[int]]:
    """Queries and keys of the gold links between an input's tokens, by their places on the page."""
    if not (result.links and result.targets and ALIGNED.id in result.scores.patterns):
        return []
    unit = np.array(attention.unit or range(len(attention.tokens)), dtype=int)
    target = result.targets[0][result.scores.patterns.index(ALIGNED.id)]
    linked = target[unit[attention.asking] - unit[attention.rows[0]]][:, unit[attention.asked]] > 0
    return [[len(attention.asked) + query, key] for query, key in np.argwhere(linked).tolist()]


def shown(token: str) -> str:
    """A token as the page writes it."""
    return plain(token.strip()) or "␣"


def _reads_right_to_left(tokens: Sequence[str]) -> bool:
    """Whether more letters of the text are of a right-to-left script than not."""
    kinds = [unicodedata.bidirectional(character) for token in tokens for character in token]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L") / 2  # [CLS] and its like are Latin
