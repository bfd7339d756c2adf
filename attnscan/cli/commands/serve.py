"""The command `attnscan serve`."""

from __future__ import annotations

import traceback
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.messages import say
from attnscan.cli.output import write_stdout
from attnscan.errors import OutputError
from attnscan.inputs.library_calls import distrust

if TYPE_CHECKING:
    from threading import Event

EXAMPLE = "attnscan serve --open"
_AGAINST = "Also load this model, and ask it the same."


def serve(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    against: Annotated[str | None, o.option(_AGAINST, "NAME")] = None,
    port: Annotated[int | None, o.option("Serve at this port. [default: a free one]", "N", min=1, max=65_535)] = None,
    open_browser: Annotated[bool, o.flag("--open", "Open the page in a browser.")] = False,
) -> None:
    server = o.call("serve", context.params, on_bug=_say_bug)
    with suppress(KeyboardInterrupt):
        write_stdout(f"{server.url}\n".encode())
        say(f"open this address to ask {' and '.join(server.titles)}; Ctrl-C ends it")
        if open_browser and not webbrowser.open(server.url):
            say("no browser is available: open the address by hand")
        wait_for(server.ended)
    server.close()
    distrust("the server")  # the process ends at once, whatever a model or a browser is at


def wait_for(ended: Event) -> None:
    """Wait for a server's end, which Ctrl-C comes before. Raises: OutputError if it ends by itself."""
    while not ended.wait(1):  # without a time, Windows hears no Ctrl-C meanwhile
        pass
    raise OutputError("the server stopped unexpectedly", "start it again")


def _say_bug(error: Exception) -> None:
    """A bug of ours, for a report: the lines of its traceback, with what a terminal would obey made visible."""
    for line in "".join(traceback.format_exception(error)).splitlines():
        say(line)
