"""How a notebook shows results: the package registers what renders them, once, by their classes.

Results do not know the views, and are shown wherever the package is imported.
"""

from collections.abc import Callable
from typing import Any

RENDERERS: dict[str, Callable[[Any], str]] = {}
"""What makes HTML of a result, by the name of its class."""


def render_html(result: Any) -> str | None:
    """The HTML that a notebook shows of a result; None if nothing renders its class."""
    renderer = RENDERERS.get(type(result).__name__)
    return None if renderer is None else renderer(result)
