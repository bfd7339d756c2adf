"""Pictures for a paper or a slide, drawn with matplotlib.

look.py       the file that a picture is for
picture.py    results to files' contents
sheet.py      a sheet to draw on, in inches; what colours stand for
lettering.py  how wide texts are, and how they break
panels.py     panels side by side
map.py  scores.py  head_weights.py  ablation.py  syntax.py
"""
