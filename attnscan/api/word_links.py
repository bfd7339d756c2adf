"""The links between words that heads of cross attention make, of one pair or many: for `show`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attnscan.api.open_model import library_call
from attnscan.api.pairs_input import PairsInput
from attnscan.errors import OptionError
from attnscan.results.grid import Heads

if TYPE_CHECKING:
    from attnscan.results.word_links import WordLinks

VOTE_ALONE = "``vote`` is for the links of several heads"
_NOT_FOR_LINKS = ("alignments", "write")
"""Options of weights that links do not take."""


def link_words(
    inputs: PairsInput,
    heads: Heads,
    options: Mapping[str, Any],
    shown: Mapping[str, Any],
    *,
    vote: bool,
) -> WordLinks:
    """The links of a head, or of several that vote.

    Raises: OptionError for what is `shown` of weights, for heads of other attention than cross, and
    where several heads do not vote.
    """
    for name in (*_NOT_FOR_LINKS, *shown):
        value = shown.get(name, options.get(name))
        if value is not None and value is not False:
            raise OptionError(f"``{name}`` is not for links of words", "leave it out")
    call = library_call(
        "show", options, inputs, many=True, heads=heads, related=False, predictive="off"
    )
    if call.options.attention != "cross":
        raise OptionError("words are linked by heads of cross attention", "name some, such as c1-0")
    with call.open_model() as scanner:
        from attnscan.scan.word_links import read_word_links

        chosen = scanner.grid().select(heads)
        if vote and len(chosen) == 1:
            raise OptionError(VOTE_ALONE, "name some more, or leave it out")
        if len(chosen) > 1 and not vote:
            raise OptionError("several heads make several links", "add ``vote``, or name one head")
        result = read_word_links(scanner, call.pairs.begin, chosen, call.pairs.skips)
        call.note(scanner, result.signature)
    return result
