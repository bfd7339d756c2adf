"""One way to run anything: a frozen request in, events out. The library, the command line and the server translate.

requests.py   what can be run
reading.py    pairs to be read, wherever they are, and what is told of them once
events.py     what a run tells, up to its result
engine.py     run: tells events up to the result, and cleans up
running.py    what a run holds, models opened for it, and notes on its inputs; one input, and several one by one
ranking.py    scans of many pairs and parts of them, with state files and per-pair output
studies.py    explanation, ablation, similarity, comparison, checkpoint
"""
