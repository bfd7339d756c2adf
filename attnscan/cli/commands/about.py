"""The commands `attnscan pairs`, `attnscan patterns` and `attnscan models`."""

import typer

import attnscan
from attnscan.cli.calls import answer, call
from attnscan.cli.output import output_of


def pairs(context: typer.Context) -> None:
    output = output_of(context.params)
    frame = call("pairs", context.params)
    from attnscan.views.terminal.pairs import pairs_view

    output.write(lambda: frame, lambda _: pairs_view(frame))


def patterns(context: typer.Context) -> None:
    output = output_of(context.params)
    from rich.text import Text

    from attnscan.scoring.patterns import SHIPPED, chosen
    from attnscan.views.palette import check_no_habits
    from attnscan.views.terminal.patterns import pattern_text, patterns_text

    name = context.params["name"]
    check_no_habits([name])
    pattern = None if name is None else chosen(name, SHIPPED)[0]

    def view(width: int) -> Text:
        if pattern is None:
            return Text(patterns_text())
        return Text(pattern_text(pattern, min(width, 80)))

    output.write(lambda: attnscan.patterns(name), view)


def models(context: typer.Context) -> None:
    output, result = answer(context)
    from attnscan.views.terminal.about import checkpoint_view, models_view

    view = models_view if context.params["checkpoint"] is None else checkpoint_view
    output.write(result.to_frame, lambda _: view(result))
