"""The command line: parse, ask, tell, write.

app.py          the commands together, each imported when asked for
options.py      options that commands share
completion.py   what Tab offers
messages.py     standard error: lines, bars, errors, Ctrl-C
destination.py  format and place of a result
jobs.py         what a command on one input does between parsing and printing
pair_jobs.py    ... and one over many pairs
study_jobs.py   ... and a study, which may read them more than once
commands/       one module a command
"""
