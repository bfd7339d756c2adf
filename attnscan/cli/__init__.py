"""The command line: a command parses, calls the library's function of its name, and writes.

app.py          the commands together, each imported when asked for
options.py      the options, and what the library calls them
asking.py       the library's function, called with what a command was given
screen_frame.py what was asked, above a screen, and what to try next, below it
messages.py     standard error: lines, errors, Ctrl-C
bars.py         progress, notes and warnings on standard error
destination.py  format and place of a result; that no run writes over what it reads
commands/       one module a command, from parsing to writing
"""
