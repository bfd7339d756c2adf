"""The command line: a command parses, calls the library's function of its name, and writes.

app.py          the commands together, each imported when asked for; errors to lines and exit codes, Ctrl-C
options.py      the options, and what the library calls them
output.py       results on standard output or in files, lines and a bar on standard error
commands/       a module for each group of the help, from parsing to writing
"""
