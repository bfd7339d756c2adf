"""Results to look at: text or bytes, never written anywhere from here, and no torch.

palette.py   the letters and colours of patterns
summary.py   what a screen and a notebook both tell
notebook.py  HTML of a result
terminal/    screens
pictures/    PNG, SVG and PDF
page/        the offline page
"""
