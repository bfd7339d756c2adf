"""The command line: parse, ask, tell, write.

app.py          the commands together, each imported when asked for
options.py      the options, in frozen bundles
bundles.py      and how these are spread out for Typer
refused.py      options that a command does not have, and why
overwrite.py    no file that a run writes overwrites another one, what it reads, or a model's own file
completion.py   what Tab offers
usage.py        wrong usage in one line
messages.py     standard error: lines, errors, Ctrl-C
bars.py         what runs now, on a terminal
destination.py  format and place of a result
screen_frame.py the lines above a screen, what was asked, and below it, what to try next
imports.py      large libraries imported
session.py      pairs read, a model opened, and what the user is told of them
one_by_one.py   several inputs for classify, each written before the next
scanning.py     scans of many pairs, with a state, a bar and Ctrl-C
commands/       one module a command, from parsing to writing
"""
