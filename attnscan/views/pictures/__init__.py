"""Pictures for a paper or a slide, drawn with matplotlib, which lays out every figure.

look.py     the file that a picture is for
figure.py   what all pictures share: style, panels, grids of heads, captions, legends, the file
picture.py  each kind of picture, and which results have which
"""
