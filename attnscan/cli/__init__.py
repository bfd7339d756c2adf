"""The command line: parse, ask `run`, tell, write.

app.py          the commands together, each imported when asked for
options.py      the options, in frozen bundles
bundles.py      and how these are spread out for Typer
screen_frame.py what was asked, above a screen, and what to try next, below it
messages.py     standard error: lines, errors, Ctrl-C
bars.py         runs, with what runs now and what the user should know, on standard error
destination.py  format and place of a result; that no run writes over what it reads
commands/       one module a command, from parsing to writing
"""
