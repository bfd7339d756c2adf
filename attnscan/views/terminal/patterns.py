"""The texts of `patterns`: what each pattern counts, with its drawing."""

import textwrap

from attnscan.scoring.patterns import SHIPPED, Pattern
from attnscan.views.palette import why_even_is_not

_NOT_DRAWN = "    No fixed matrix: the model is asked which words help to predict which."


def patterns_text() -> str:
    """The patterns, each with what it counts and its target on a toy pair. Fits 80 columns."""
    title = (
        'The patterns of Jesse Vig, "Deconstructing BERT" (2018/19), and those of causal\n'
        "models, on a toy pair. Rows are queries, columns are keys; a dot is 0."
    )
    blocks = [title]
    for pattern in SHIPPED:
        lines = [f"{pattern.letter} {pattern.id}: {pattern.counts}"]
        lines += textwrap.wrap(why_even_is_not(pattern.id), 80)
        blocks.append("\n".join([*lines, pattern.drawing or _NOT_DRAWN]))
    return "\n\n".join(blocks) + "\n"


def pattern_text(pattern: Pattern, width: int) -> str:
    """One pattern in full.

    It says what the pattern counts, of which queries and keys, and its target on the toy pair.
    """
    chance = "the score if each query spread its weight evenly over the keys it may see"
    facts = {
        "queries": pattern.queries,
        "keys": pattern.keys,
        "chance": chance,
        "source": pattern.source,
    }
    lines = [f"{pattern.letter} {pattern.id}: {pattern.counts}"]
    lines += [*textwrap.wrap(why_even_is_not(pattern.id), width), ""]
    for name, text in facts.items():
        lines += textwrap.wrap(text, width, initial_indent=name.ljust(9), subsequent_indent=" " * 9)
    return "\n".join([*lines, "", pattern.drawing or _NOT_DRAWN]) + "\n"
