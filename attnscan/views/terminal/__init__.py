"""Screens, one module a result.

parts.py           what all screens share
map.py             every head's letter
classification.py  ranking.py  labels.py  head_weights.py  explanation.py  dependencies.py
ablation.py  similarity.py  comparison.py  profile.py
models.py          what can run now, and what one checkpoint is
patterns.py        the seven patterns, drawn
"""
