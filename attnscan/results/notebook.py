"""How results are shown in HTML: the package registers what renders them, once, by their classes.

A notebook shows a screen and a page, and a dashboard takes the page alone. Results do not know the
views, and are shown wherever the package is imported.
"""

from collections.abc import Callable
from typing import Any

RENDERERS: dict[str, Callable[[Any], str]] = {}
"""What makes HTML of a result, by the name of its class."""
PAGES: dict[str, Callable[[Any], str]] = {}
"""What writes the page of a result, by the name of its class."""


def render_html(result: Any) -> str | None:
    """The HTML that a notebook shows of a result; None if nothing renders its class."""
    renderer = RENDERERS.get(type(result).__name__)
    return None if renderer is None else renderer(result)


def render_page(result: Any) -> str:
    """The page of a result, as the text of an HTML file."""
    return PAGES[type(result).__name__](result)
