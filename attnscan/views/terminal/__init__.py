"""Screens, one module a result.

parts.py           what all screens share
heads.py           what every head does, as the first screens of heads and classify say it; the best heads; profile
head_weights.py  explanation.py  card.py  ablation.py  comparison.py  syntax.py
about.py           the patterns, drawn; what can run now, and what one checkpoint is
"""
