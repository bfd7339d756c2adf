"""The screen of `heads`: the best heads of each pattern, and what their scores are worth."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.heads import head_name
from attnscan.results.ranking import Ranking
from attnscan.views.summary import worth
from attnscan.views.terminal.parts import color_of, columns, model_line, named


def ranking_view(
    result: Ranking, patterns: Sequence[str], top: int, width: int, without_delimiters: bool
) -> RenderableType:
    """The best heads of each pattern, with what a score is worth: chance, standard error, how much it rests on."""
    table = result.scores.table(without_delimiters)
    blocks: list[RenderableType] = [model_line(result.signature, f"  {result.signature.counts}")]
    for pattern in patterns:
        p = result.scores.patterns.index(pattern)
        grid = columns(("head",), ("score", "± se", "chance", "above chance", "n", "pairs"), ("",))
        for flat in result.order(pattern, without_delimiters=without_delimiters)[:top]:
            head = divmod(int(flat), result.scores.grid[1])
            score = float(table.score[(*head, p)])
            grid.add_row(
                head_name(head),
                *worth(table, (*head, p)),
                Text("█" * round(max(0, width - 62) * score) if score == score else "", style=color_of(pattern)),
            )
        measured = bool((table.n[..., p] > 0).any())
        blocks += [
            "",
            named(pattern),
            grid if measured else Text("no word was eligible, or none was asked", style="dim"),
        ]
    return Group(*blocks, *([Text("Scores on words: weights on delimiters removed.")] if without_delimiters else []))
