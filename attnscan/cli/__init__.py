"""The command line: a command parses, calls the library's function of its name, and writes.

app.py          the commands together, each imported when asked for
options.py      the options, and what the library calls them
messages.py     standard error: lines, errors, Ctrl-C, a bar
output.py       format and place of a result, with what stands around it; that no run writes over what it reads
commands/       a module for each group of the help, from parsing to writing
"""
