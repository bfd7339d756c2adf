"""Screens, one module a result.

parts.py           what all screens share
heads.py           what every head does, as the first screens of heads and classify say it; the best
                   heads; profile
alignment.py       which heads of cross attention align words, below the first screen of heads
head_weights.py    one head's weights; which words help to predict which
comparison.py      what sets two models apart; which heads attend alike
explanation.py  card.py  ablation.py  syntax.py  trace.py
patterns.py        what each pattern counts, drawn
pairs.py           how files of pairs are read
about.py           what can run now, and what one checkpoint is
"""
