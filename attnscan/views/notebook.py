"""What a notebook shows of a result: a screen and, of one input, the page of `report`."""

from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.attention import MOST_DRAWN
from attnscan.results.card import Cards
from attnscan.results.heads import HeadScores
from attnscan.views.terminal.card import cards_view
from attnscan.views.terminal.heads import best_heads_view, first_screen
from attnscan.views.terminal.parts import render_html

_WIDTH = 88  # columns of a screen, which the columns of notebooks have room for
_BEST = 5  # heads of a pattern, where there are no labels
_PAGE_SIZE = 1_000_000  # bytes: a notebook keeps what it shows


def heads_html(result: HeadScores) -> str:
    """What every head does, or the best heads of each pattern.

    Of one input, the page stands below if attention was kept.
    """
    screen: RenderableType
    if result.is_one_input:
        notes = [Text(note, style="dim") for note in result.notes]
        screen = Group(first_screen(result, _WIDTH), *notes)
    elif result.has_labels:
        screen = first_screen(result, _WIDTH, result.signature.counts)
    else:
        screen = best_heads_view(
            result, result.scores.patterns, _BEST, _WIDTH, result.signature.counts
        )
    return render_html(screen, _WIDTH) + _page(result)


def cards_html(cards: Cards) -> str:
    """The cards."""
    return render_html(cards_view(cards, _WIDTH), _WIDTH)


def _page(result: HeadScores) -> str:
    """The page of `report`, of one input whose attention was kept."""
    attention = result.attention
    if attention is None or len(attention.rows) > MOST_DRAWN:
        return ""
    if attention.chosen and attention.chosen.heads:
        return ""
    from attnscan.views.page.page import PageOptions, page

    return page(result, PageOptions(size=_PAGE_SIZE))._repr_html_()
