"""The card of a head: what it does, and everything that says so, on one screen."""

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.card import Card, Cards, Example
from attnscan.results.grid import Head
from attnscan.results.syntax import Syntax
from attnscan.text import counted, plain
from attnscan.views.behaviour import does, held_statement, how_sure
from attnscan.views.terminal.parts import Column, model_line, named, number, table_of, wrapped
from attnscan.views.terminal.syntax import relations_table

_CLASSES = 6  # of the head's attention, at most
_LEAST_SHARE = 0.05  # of a class that is listed
_LINKS = 4
_RELATIONS = 3
_RELATION_COLUMNS = ("relation", "right", "rule", "gain", "weight")
_AROUND = 8  # words that are shown before and after those marked, in a sentence that is cut


def cards_view(cards: Cards, width: int) -> RenderableType:
    """Some heads, one after the other."""
    signature = cards.ranking.signature
    blocks: list[RenderableType] = [model_line(signature, f"  {signature.counts}")]
    for card in cards.cards:
        blocks += ["", *_card(card, width)]
    return Group(*blocks)


def _card(card: Card, width: int) -> list[RenderableType]:
    """At most 45 lines at 80 columns, with the model, what was read, and what to try next."""
    signature = card.ranking.signature
    pairs = signature.pairs_read - signature.pairs_skipped
    looked_at = f", of the first {card.pairs:,} of {pairs:,} pairs" if card.pairs < pairs else ""
    blocks: list[RenderableType] = [*wrapped(does(card), width, style="bold")]
    blocks += wrapped(how_sure(card.ranking.labels, card.head), width)
    blocks += wrapped(held_statement(card.ranking, card.head), width)
    blocks += ["", _scores(card, width), *wrapped(_profile(card), width, style="")]
    blocks += ["", _links(card, looked_at, width)]
    blocks += wrapped(_alike(card, looked_at), width, style="")
    causes = f"{card.why['by'] or 'not known'}; {card.evidence}"
    pairs_of_causes = counted(card.why["pairs"], "pair")
    blocks += wrapped(f"Why: {causes} ({pairs_of_causes}).", width, style="")
    blocks += wrapped(_lost(card), width, style="")
    if card.syntax is not None:
        blocks += _syntax(card.syntax, card.head, width)
    if card.examples:
        title = f"Strongest{looked_at}; ‹from› «to» are the words that it links most there"
        blocks += ["", Text(title, style="dim")]
    return blocks + [_example(example, width) for example in card.examples]


def _links(card: Card, looked_at: str, width: int) -> Table:
    """The words that the head links most, by the pairs that were looked at."""
    rows = []
    for link in card.links[:_LINKS].itertuples():
        name = f"{link.query} → {link.key}"[:30]
        rows.append([name, link.share, link.average, link.count])
    columns = [
        Column(f"links most, from → to{looked_at}"),
        Column("share", ">.2f"),
        Column("average", ">.2f", 1),
        Column("times", ">,", 2),
    ]
    return table_of(columns, rows, width)


def _alike(card: Card, looked_at: str) -> str:
    """The heads that attend most alike; empty if that is not known."""
    if not card.alike:
        return ""
    alike = ", ".join(f"{head.name} {divergence:.2f}" for head, divergence in card.alike)
    return f"Most alike, by divergence in nats{looked_at}: {alike}."


def _scores(card: Card, width: int) -> Table:
    """The score of each pattern, by the scan's reading, with its rank."""
    rows = []
    ranking = card.ranking
    for name, numbers in card.patterns.items():
        interval = "" if np.isnan(numbers["low"]) else f"{numbers['low']:.3f}–{numbers['high']:.3f}"
        if name == "predictive" and ranking.signature.predictive == "off":
            interval = "switched off"
        rank = "" if numbers["rank"] is None else f"{numbers['rank']} of {len(ranking.grid)}"
        score = numbers["score"]
        rows.append([named(name), score, interval, numbers["chance"], rank])
    columns = [
        Column("pattern"),
        Column("score", ">.3f"),
        Column("95 % interval", ">", 2),
        Column("chance", ">.3f", 1),
    ]
    return table_of([*columns, Column("rank", ">")], rows, width)


def _profile(card: Card) -> str:
    """Where the head's attention goes, with standard errors."""
    profile = card.ranking.profile
    ses = zip(profile.classes, profile.se[card.head.place].tolist(), strict=True)
    errors = {name: f" ± {se:.2f}" if se >= 0 else "" for name, se in ses}
    shares = (
        profile.strongest(card.head, _LEAST_SHARE)[:_CLASSES] or profile.strongest(card.head)[:1]
    )
    classes = (f"{plain(name)} {share:.2f}{errors[name]}" for name, share in shares)
    among = " among words" if card.ranking.reading.words_only else ""
    return f"Where attention goes{among}: {', '.join(classes) or 'nowhere'}."


def _lost(card: Card) -> str:
    """What the model loses without the head, by each quantity; empty if that is not known."""
    if card.ablation is None:
        return ""
    lost = []
    for effect in card.ablation.effects:
        if np.isnan(effect.ablated):
            continue
        text = plain(f"{effect.quantity.name} ({effect.quantity.unit}) ")
        if not np.isnan(effect.intact):
            text += f"{effect.intact:.4f} → "
        text += f"{effect.ablated:.4f}"
        if effect.others:
            text += f" ({effect.control:.4f} without another head of its layer)"
        if effect.conclusion:
            text += f": {effect.conclusion}"
        lost.append(text)
    return f"Without it: {'; '.join(lost)}." if lost else ""


def _syntax(syntax: Syntax, head: Head, width: int) -> Iterator[RenderableType]:
    """What the head is said to follow, its trees, and the relations that it follows most."""
    statement = plain(syntax.statements.get(head, "no relation beyond fixed rules"))
    basis = f"{syntax.count_inputs()}; gain over the best rule, * by Holm"
    if syntax.has_trees:
        uuas = number(float(syntax.uuas[head.place])) or "n/a"
        trees = f"UUAS {uuas}, the chain {number(syntax.chain_uuas)}"
        text = f"Syntax: {statement}. Trees: {trees} ({basis})."
    else:
        text = f"Links: {statement} ({basis})."
    yield from wrapped(text, width, style="")
    rows = syntax.head_rows(head)[:_RELATIONS]
    if len(rows):
        yield relations_table(syntax, rows, _RELATION_COLUMNS, width)


def _example(example: Example, width: int) -> Text:
    """An input with its share, on two lines: the words around those that are marked."""
    units = [plain(unit.strip()) or "␣" for unit in example.units]
    marked = (example.query, example.key)
    units[example.query] = f"‹{units[example.query]}›"
    units[example.key] = f"«{units[example.key]}»"
    words: list[str] = []
    for place, unit in enumerate(units):
        if min(abs(place - mark) for mark in marked) <= _AROUND:
            words.append(unit)
        elif words[-1:] != ["…"]:
            words.append("…")
    line = Text(f"{example.share:.2f}  {' '.join(words).replace(' ##', '')}")
    line.truncate(2 * (width - 6), overflow="ellipsis")
    return line
