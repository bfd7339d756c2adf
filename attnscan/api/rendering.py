"""What a notebook shows of a result, and the page that is written of it.

Apart from the readings, which a command may compute without pandas or a page.
"""

from __future__ import annotations

from attnscan.api.readings import with_every_reading
from attnscan.results.card import Cards
from attnscan.results.heads import HeadScores
from attnscan.views.notebook import cards_html, heads_html
from attnscan.views.page.page import page


def show_heads(result: HeadScores) -> str:
    """What a notebook shows of a result: its screen and, of one input, its page."""
    return heads_html(with_every_reading(result))


def show_cards(cards: Cards) -> str:
    """What a notebook shows of cards."""
    return cards_html(cards)


def write_page(result: HeadScores) -> str:
    """The page of a result, as `report` writes it. Raises: OptionError, as `report`."""
    return page(with_every_reading(result)).html
