"""Screens, one module a result.

parts.py           what all screens share
heads.py           what every head does, as the first screens of heads and classify say it; the best heads of patterns
head_weights.py  explanation.py  card.py  ablation.py  comparison.py  profile.py  syntax.py
models.py          what can run now, and what one checkpoint is
patterns.py        the patterns, drawn
"""
