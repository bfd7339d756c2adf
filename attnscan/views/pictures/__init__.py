"""Pictures for a paper or a slide, drawn with matplotlib, which lays out every figure.

look.py     the file that a picture is for
picture.py  results to files' contents
figure.py   what all pictures share: style, panels, captions, legends
map.py  scores.py  head_weights.py  ablation.py  syntax.py
"""
