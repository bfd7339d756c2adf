"""The command `attnscan show`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from attnscan.cli.calls import answer, call
from attnscan.cli.options import option
from attnscan.cli.output import Output, input_lines, output_of


def show(
    context: typer.Context,
    top: Annotated[
        int | None, option("List the N strongest weights instead of a map.", "N", min=1)
    ] = None,
) -> None:
    params = context.params
    if params["format"] == "pharaoh":
        _write_links(output_of(params), params)
        return
    for name in ("pairs", "vote"):
        if params[name]:
            raise typer.BadParameter(
                f"--{name} of show is for the links of words: add --format pharaoh, or leave it out"
            )
    output, result = answer(context)
    from attnscan.views.terminal.head_weights import head_view

    output.write(
        lambda: result.to_frame(top),
        lambda width: head_view(result, width, top),
        above=input_lines(params),
    )


def _write_links(output: Output, params: Mapping[str, Any]) -> None:
    """Write which words a head links, or several that vote, a line for each pair."""
    if params["top"] is not None:
        raise typer.BadParameter("--top is not for links of words: leave it out")
    one_pair: dict[str, Any] = {}
    if not params["pairs"]:
        if params["a"] is None:
            raise typer.BadParameter("no pair was given: give source and target, or --pairs FILE")
        one_pair = {"a": None, "b": None, "pairs": [(params["a"], params["b"])]}
    result = call("show", params, **one_pair)
    output.write(result.to_frame, lambda _: result.to_pharaoh(), links=result.to_pharaoh)
