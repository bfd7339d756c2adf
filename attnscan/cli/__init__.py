"""The command line: a command parses, calls the library's function of its name, and writes.

app.py             the commands together, each imported when asked for; errors, exit codes, Ctrl-C
commands_table.py  the commands, a row each
options.py         what a command takes: what the library declares, and what writes a result
completion.py      what a shell completes
calls.py           what was typed as a call of the library, and its result to where it goes
output.py          results on standard output or in files, lines and a bar on standard error
commands/          the commands that write their results in ways of their own
"""
