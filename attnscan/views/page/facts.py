"""What the page's scripts read of a result as JSON: heads, table, and the tokens of an input."""

import csv
import io
import shlex
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, product, zip_longest
from typing import Any

import numpy as np
import pandas as pd

from attnscan.results.attention import PADDING, Attention
from attnscan.results.columns import (
    ALIGNMENT_COLUMNS,
    HEAD_COLUMNS,
    HELD_COLUMNS,
    MEAN_COLUMNS,
    PAGE_COLUMNS,
)
from attnscan.results.files import render
from attnscan.results.grid import Head
from attnscan.results.habits import HABITS
from attnscan.results.heads import HeadScores
from attnscan.results.intervals import half_width
from attnscan.results.scores import best_first
from attnscan.results.signature import IN_MEMORY, AttentionView, Signature
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.text import plain
from attnscan.views.behaviour import (
    held_statement,
    held_summary,
    resampled_from,
    statement,
    summary,
    why_unsure,
)
from attnscan.views.page.arrays import WEIGHT_STEPS, pack, pack_masks, pack_thumbnails
from attnscan.views.palette import COLORS, HEAD_COLORS, RESTS, letter, readable_on, words

_LEAST_SHARE = 0.01  # of a word's attention; classes with less are not listed
_MOST_HEADS = 600
"""Whose statements and shares take 50 kB; of more, a page has better things to hold."""
_NEUTRAL = "#64748b"  # the colour of heads without a habit, and of a user's own pattern


def strongest_first(result: HeadScores) -> list[Head]:
    """All heads: the best one of each pattern, then the second ones, and so on.

    By how far a head is above chance, so that patterns with many targets have no advantage. Over
    pairs, heads with a pattern's label come first: the page opens on the first head.
    """
    by_pattern = np.moveaxis(result.table.above_chance, -1, 0)
    ranks = zip_longest(*(best_first(above_chance) for above_chance in by_pattern))
    ranked = [number for number in chain.from_iterable(ranks) if number is not None]
    numbers = dict.fromkeys([*ranked, *range(len(result.grid))])
    heads = [result.grid[number] for number in numbers]
    if result.is_one_input:
        return heads
    return sorted(heads, key=lambda head: not result.labels.follows[head.place])


def facts_of(result: HeadScores, attention: Attention | None, inputs: int) -> dict[str, Any]:
    """What a page shows of many pairs, or of one of its `inputs`: all but single heads' numbers.

    `texts` in it are packed numbers by their ids. Readings are all that the result has; its own
    comes last.
    """
    readings = [result.reading]
    if attention is not None:
        readings = sorted(result.labels_by, key=lambda reading: reading == result.reading)
    by_name = {_name_of(reading): reading for reading in readings}
    tables = {
        name: _table_of(result.select_reading(reading.by, reading.special))
        for name, reading in by_name.items()
    }
    as_json = pd.Series(tables).to_json(double_precision=5)  # with null for NaN
    facts = {
        **_facts_of_heads(result),
        "titles": {name: f"what each head does, {reading}" for name, reading in by_name.items()},
        "usual": _name_of(readings[-1]),
        "whyNot": _why_not(result, attention),
        "texts": {"tables": pack(np.frombuffer(as_json.encode(), np.uint8))},
    }
    if attention is not None:
        thumbnails, facts["side"] = pack_thumbnails(attention, by_name, inputs)
        masks, facts["maskOfLayer"] = pack_masks(attention)
        facts["texts"] |= thumbnails | masks
        facts |= _facts_of_tokens(result, attention)
    return facts


def _name_of(reading: AttentionView) -> str:
    """What the page's scripts call a reading: `weight` or, among words, `weight-words`."""
    return f"{reading.by}-words" if reading.words_only else reading.by


def _facts_of_heads(result: HeadScores) -> dict[str, Any]:
    """The heads of a model, and what each of them may do."""
    signature = result.signature
    grid = result.grid
    patterns = result.scores.patterns
    counts = {pattern.id: pattern.counts for pattern in ALL_PATTERNS}
    not_measured = dict(result.not_measured)
    if not result.is_one_input and signature.predictive == "off":
        not_measured["predictive"] = "switched off"
    habits = [
        _kind(name, f"A habit: attention on {words(name)}")
        for name in HABITS
        if name not in patterns
    ]
    none = _kind("", "Nothing tells them from the average head") | {"id": "none"}
    return {
        "title": plain(signature.title),
        "subtitle": signature.counts,
        "columns": _facts_of_columns(),
        "device": plain(f"{signature.device} {signature.dtype}"),
        "key": grid.kind.word,
        "attention": grid.kind.word,
        "letter": grid.kind.letter,
        "grid": grid.shape,
        "heads": [head.name for head in grid],
        "patterns": [
            _kind(name, counts.get(name, ""), not_measured.get(name, "")) for name in patterns
        ],
        "habits": [*habits, none],
        "headColors": [(color, readable_on(color)) for color in HEAD_COLORS],
        "drawn": resampled_from(result.labels),
        "whyUnsure": why_unsure(result.labels),
        "held": [] if result.held is None else [held_statement(result, head) for head in grid],
        "restsMark": RESTS,
        "card": _card_command(signature),
        "tokens": [],
    }


def _facts_of_columns() -> dict[str, dict[str, Any]]:
    """How the page shows the columns of its table that are not patterns' scores."""
    columns = {}
    every = (*HEAD_COLUMNS, *MEAN_COLUMNS, *ALIGNMENT_COLUMNS, *HELD_COLUMNS, *PAGE_COLUMNS)
    for column in every:
        columns[column.name] = {
            "heading": column.heading or column.name,
            "isText": column.is_text,
            "decimals": column.decimals,
            "unit": column.unit,
            "isSaved": column not in PAGE_COLUMNS,
            "isError": column.is_error,
        }
    return columns


def _kind(name: str, counts: str, why_none: str = "") -> dict[str, str]:
    """How a pattern or habit is shown, and what it counts."""
    color = COLORS.get(name, _NEUTRAL)
    style = {
        "letter": letter(name),
        "words": words(name),
        "color": color,
        "ink": readable_on(color),
    }
    return {"id": plain(name), **style, "counts": counts, "whyNone": plain(why_none)}


def _card_command(signature: Signature) -> str:
    """What prints the card of HEAD over pairs: a command or, of a model in memory, a call.

    It is empty for saved weights.
    """
    if signature.read_by == "file":
        return ""
    if signature.model.endswith(IN_MEMORY):
        return 'attnscan.head("HEAD", model=model, tokenizer=tokenizer)'
    return f"attnscan head HEAD --model {plain(shlex.quote(signature.model))}"


def _why_not(result: HeadScores, attention: Attention | None) -> dict[str, str]:
    """Why a page lacks a reading, the weights of some heads, or queries and keys."""
    advice = f"this page was made {result.reading}; make one with"
    by = "weight" if result.reading.carried else "carried"
    special = "in" if result.reading.words_only else "out"
    one_reading = {by: f"{advice} --by {by}", special: f"{advice} --special {special}"}
    if attention is None:
        return one_reading
    reasons = {} if len(result.labels_by) > 1 else one_reading
    reasons |= {
        "weights": "the page holds the heads that follow a pattern most, as many as fit",
        "neurons": "there was no room for this head's queries and keys; "
        "--size or --heads brings them",
    }
    is_saved = result.signature.read_by == "file"
    if attention.norms is None:
        reason = "what heads of this architecture carry cannot be computed"
        if is_saved:
            reason = "saved weights do not hold what heads carry"
        reasons["carried"] = reason
    if attention.query is None:
        holder = "saved weights hold no" if is_saved else "this architecture does not show its"
        reasons["neurons"] = f"{holder} queries and keys"
    return reasons


def _table_of(result: HeadScores) -> dict[str, Any]:
    """The CSV's cells, and what no CSV has.

    Cells are, too, what heads of one input put out, or the intervals of many pairs.
    """
    labels = result.labels
    table = result.table
    grid = result.grid
    patterns = result.scores.patterns
    cells = labels.columns(result.pattern or patterns)
    frame = pd.DataFrame({"model": result.signature.model, **cells})
    for column in PAGE_COLUMNS:
        values = column.values(result)
        if values is not None:
            frame[column.name] = values.ravel()
    for column in () if result.held is None else HELD_COLUMNS:
        frame[column.name] = column.values(result).ravel()
    for p, pattern in enumerate(() if result.is_one_input else patterns):
        for end, bound in zip(("low", "high"), table.interval, strict=True):
            frame[f"{pattern}_{end}"] = bound[..., p].ravel()
    columns, *rows = csv.reader(io.StringIO(render(frame, "csv").decode()))
    heads = list(grid) if len(grid) <= _MOST_HEADS else []
    return {
        "columns": columns,
        "rows": rows,
        "unsure": labels.unsure.ravel().astype(int).tolist(),
        "rests": labels.rests.ravel().astype(int).tolist(),
        "changed": (result.changed & ~labels.unsure).ravel().astype(int).tolist(),
        "chance": np.broadcast_to(table.chance, table.score.shape).reshape(len(grid), -1).tolist(),
        "summary": plain(f"{summary(result)} {held_summary(result)}".strip()),
        "does": [statement(labels, head) for head in heads],
        "profiles": _profiles(result, heads) if labels.classes is not None else [],
    }


def _profiles(result: HeadScores, heads: Sequence[Head]) -> list[list[tuple[str, float, float]]]:
    """The classes of keys that each head attends to, with their shares and errors."""
    profile = result.profile
    half = half_width(profile.se, profile.clusters)
    profiles = []
    for head in heads:
        error = dict(zip(profile.classes, half[head.place], strict=True))
        shares = profile.strongest(head, _LEAST_SHARE)
        profiles.append([(plain(name), share, error[name]) for name, share in shares])
    return profiles


def _facts_of_tokens(result: HeadScores, attention: Attention) -> dict[str, Any]:
    """An input's tokens, and the numbers of them that a page may hold."""
    passage = attention.passage
    unit = attention.unit or range(len(attention.tokens))
    total = sum(sentence != PADDING for sentence in attention.sentence)
    places = defaultdict(list)  # on the page, of each unit's tokens
    for place, token in enumerate(passage):
        places[unit[token]].append(place)
    size = f"{total} tokens"
    if len(passage) != total:
        size = f"tokens {passage[0]} to {passage[-1]} of {total:,}"
    gold: list[tuple[int, int]] = []
    for target, source in result.links:
        gold += product(places[target], places[source])
    related = [(places[a], places[b]) for a, b in result.related]
    return {
        "subtitle": size,
        "tokens": [token_text(attention.tokens[token]) for token in passage],
        "special": [attention.sentence[token] < 0 for token in passage],
        "segments": [attention.segments[token] for token in passage],
        "related": [(a[-1], b[-1]) for a, b in related if a and b],
        "source": len(attention.key_tokens) if attention.source else 0,
        "gold": gold,
        "weightSteps": WEIGHT_STEPS[0],
        "neurons": 0 if attention.query is None else attention.query.shape[-1],
        "scaling": attention.scaling,
    }


def token_text(token: str) -> str:
    """A token as the page writes it."""
    return plain(token.strip()) or "␣"
