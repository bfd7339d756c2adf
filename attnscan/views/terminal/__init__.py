"""Screens, one module a result.

parts.py           what all screens share
behaviour.py       what every head does: the first screens of heads and classify
classification.py  ranking.py  head_weights.py  explanation.py  dependencies.py
card.py  ablation.py  similarity.py  comparison.py  profile.py
models.py          what can run now, and what one checkpoint is
patterns.py        the seven patterns, drawn
"""
