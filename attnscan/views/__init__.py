"""Results to look at: text or bytes, never written anywhere from here, and no torch.

palette.py   the letters and colours of patterns
notebook.py  HTML of a result
terminal/    screens
pictures/    PNG, SVG and PDF
page/        the offline page
"""
