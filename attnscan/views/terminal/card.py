"""The card of a head: what it does, and everything that says so, on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from attnscan.results.card import DISTANCES, Card, Cards, Example
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.syntax import Syntax
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.behaviour import does, how_sure
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import model_line, named, number, render, wrapped
from attnscan.views.terminal.syntax import relations_table

_BARS = " ▁▂▃▄▅▆▇█"
_MOST_CLASSES = 6
_MOST = 38  # lines of a card: 45 of a screen with the model, what was read, and what to try next
_ROOMS = ((5, 3, 2, 3), (5, 3, 1, 3), (3, 3, 1, 3), (3, 2, 1, 3), (3, 1, 1, 3), (1, 1, 1, 3), (1, 1, 1, 1))
"""How many links and examples are shown, in how many lines an example, and relations: the first that leave room."""
_OF_RELATIONS = "relation", "right", "rule", "gain", "weight"
_LEAST_SHARE = 0.05
_BOUNDED = 80  # columns from which a card has a bound
_BESIDE = 110  # columns from which links stand beside the scores
_AROUND = 8  # words that are shown before and after those marked, in a sentence that is cut


def cards_view(cards: Cards, width: int) -> RenderableType:
    """Some heads, one after the other."""
    blocks: list[RenderableType] = [model_line(cards.ranking.signature, f"  {cards.ranking.signature.counts}")]
    for card in cards:
        blocks += ["", *_card(card, width)]
    return Group(*blocks)


def _card(card: Card, width: int) -> list[RenderableType]:
    """As much of a card as there is room for; on a narrow screen, all of it."""
    most = _MOST - (card.syntax is not None)  # the treebank is named above
    for room in _ROOMS:
        blocks = list(_lines(card, width, *room))
        if width < _BOUNDED or render(Group(*blocks), width).count("\n") <= most:
            break
    return blocks


def _lines(card: Card, width: int, links: int, examples: int, lines: int, relations: int) -> Iterator[RenderableType]:
    yield from wrapped(does(card), width, style="bold")
    yield from wrapped(how_sure(card.ranking.labels, card.head), width)
    yield ""
    scores, linked = _scores(card), _links(card, links)
    if width >= _BESIDE:
        both = RichTable.grid(padding=(0, 4, 0, 0))
        both.add_row(scores.screen(width), linked.screen(width))
        yield both
    else:
        yield scores.screen(width)
        yield ""
        yield linked.screen(width)
    yield ""
    yield from _distances(card, width)
    alike = ", ".join(f"{head.name} {divergence:.2f}" for head, divergence in card.look.alike)
    nearest = f"Most alike, by divergence in nats{card.looked_at}: {alike}." if alike else ""
    for told in (_profile(card), nearest, card.look.reason, _lost(card)):
        yield from wrapped(told, width, style="")
    if card.syntax is not None:
        yield from _syntax(card.syntax, card.head, width, relations)
    if card.look.examples:
        yield ""
        title = f"Strongest in these inputs{card.looked_at}; ‹from› «to» are the words that it links most there"
        yield Text(title, style="dim")
        yield from (_example(example, width, lines) for example in card.look.examples[:examples])


def _scores(card: Card) -> Table:
    """The score of each pattern, by the scan's reading, with its rank."""
    table, ranking = card.ranking.table, card.ranking
    rows = []
    for p, pattern in enumerate(ranking.scores.patterns):
        place, rank = (*card.head.place, p), card.rank(pattern)
        low, high = (bound[place] for bound in table.interval)
        interval = "" if np.isnan(low) else f"{low:.3f}–{high:.3f}"
        interval = "switched off" if pattern == "predictive" and ranking.signature.predictive == "off" else interval
        of_all = "" if rank is None else f"{rank} of {len(ranking.grid)}"
        rows.append([named(pattern), table.score[place], interval, table.chance[place], of_all])
    columns = [Column("pattern"), Column("score", ">.3f"), Column("95 % interval", ">", 2), Column("chance", ">.3f", 1)]
    return Table([*columns, Column("rank", ">")], rows)


def _links(card: Card, count: int) -> Table:
    rows = []
    for link in card.look.links[:count]:
        words = Text(f"{plain(link.query)} → {plain(link.key)}")
        words.truncate(30, overflow="ellipsis")
        rows.append([words, link.share, link.average, link.count])
    columns = Column("share", ">.2f"), Column("average", ">.2f", 1), Column("times", ">,", 2)
    return Table([Column(f"links most, from → to{card.looked_at}"), *columns], rows)


def _distances(card: Card, width: int) -> Iterator[Text]:
    """The share of attention at each distance, beside the average head's."""
    cell = 4 if width >= 10 + 4 * len(DISTANCES) else 2
    every = 1 if cell == 4 else 4
    ruler = "".join((f"{d:+}" if d else "0").rjust(cell) if d % every == 0 else " " * cell for d in DISTANCES)
    name = "from place" if card.head.kind is AttentionKind.CROSS else "distance"
    if card.looked_at:
        yield Text(f"Mean share of attention by distance{card.looked_at}", style="dim")
    yield Text(f"{name:<10}{ruler}".rstrip(), style="dim")
    own, average = card.look.distance, card.look.average_distance
    most = max(own.max(), average.max()) or 1
    if cell == 4:
        told = ("1.0" if share >= 0.995 else f"{share:.2f}".removeprefix("0") for share in own)
        yield Text(f"{'share':<10}" + "".join(text.rjust(cell) for text in told))
    for name, shares in (("", own), ("average", average)):
        bars = ((_BARS[round(share / most * (len(_BARS) - 1))] * (cell - 1)).rjust(cell) for share in shares.tolist())
        yield Text(f"{name:<10}{''.join(bars)}".rstrip(), style="dim" if name else "")


def _profile(card: Card) -> str:
    """Where the head's attention goes, with standard errors."""
    profile = card.ranking.profile
    errors = dict(zip(profile.classes, profile.se[card.head.place].tolist(), strict=True))
    classes = profile.strongest(card.head, _LEAST_SHARE)[:_MOST_CLASSES] or profile.strongest(card.head)[:1]
    told = (
        f"{plain(name)} {share:.2f}" + ("" if np.isnan(errors[name]) else f" ± {errors[name]:.2f}")
        for name, share in classes
    )
    among = " among words" if card.ranking.reading.among_words else ""
    return f"Where attention goes{among}: {', '.join(told) or 'nowhere'}."


def _lost(card: Card) -> str:
    """What the model loses without the head, by each quantity; empty if that is not known."""
    told = []
    for effect in () if card.ablation is None else card.ablation.effects:
        if np.isnan(effect.ablated):
            continue
        intact = "" if np.isnan(effect.intact) else f"{effect.intact:.4f} → "
        others = f" ({effect.control:.4f} without another head of its layer)" if effect.others else ""
        worse = f": {effect.conclusion}" if effect.conclusion else ""
        unit = plain(f"{effect.quantity.name} ({effect.quantity.unit})")
        told.append(f"{unit} {intact}{effect.ablated:.4f}{others}{worse}")
    return f"Without it: {'; '.join(told)}." if told else ""


def _syntax(syntax: Syntax, head: Head, width: int, count: int) -> Iterator[RenderableType]:
    """What the head is said to follow, its trees, and the relations that it follows most."""
    said = syntax.statements.get(head, "no relation beyond fixed rules")
    trees = f"UUAS {number(float(syntax.uuas[head.place])) or 'n/a'}, the chain {number(syntax.chain_uuas) or 'n/a'}"
    of = counted(syntax.sentences, "sentence")
    yield from wrapped(
        f"Syntax: {plain(said)}. Trees: {trees} ({of}; gain over the offset, * by Holm).", width, style=""
    )
    if len(rows := syntax.of_head(head)[:count]):
        yield relations_table(syntax, rows, _OF_RELATIONS).screen(width, apart=1)


def _example(example: Example, width: int, lines: int) -> Text:
    """An input with its share, cut to so many lines around the words that are marked."""
    spans = [Text(plain(unit) or "␣") for unit in example.units]
    for place, marks in ((example.query, "‹›"), (example.key, "«»")):
        spans[place] = Text(f"{marks[0]}{spans[place].plain}{marks[1]}", style="bold")
    first, last = sorted((example.query, example.key))
    room = lines * (width - 6)
    line = _joined(spans, example.second)
    if line.cell_len > room:
        start, stop = max(0, first - _AROUND), last + _AROUND
        parts = [(start, stop)] if last - first < 2 * _AROUND else [(start, first + _AROUND), (last - _AROUND, stop)]
        shown = [_joined(spans[begin:end], example.second - begin) for begin, end in parts]
        line = Text.assemble("… " * (start > 0), Text(" … ").join(shown), " …" * (stop < len(spans)))
    line.truncate(room, overflow="ellipsis")
    return Text.assemble(f"{example.share:.2f}  ", line)


def _joined(spans: Sequence[Text], second: int) -> Text:
    """Words with spaces between, pieces of words with none, and a bar before sentence B."""
    line = Text()
    for place, span in enumerate(spans):
        piece = span.plain.startswith("##") and not span.style
        if place:
            line.append(" | " if place == second else "" if piece else " ")
        line.append_text(Text(span.plain[2:]) if piece else span)
    return line
