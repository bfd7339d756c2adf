"""Results to look at: text or bytes, never written anywhere from here, and no torch.

palette.py   the letters and colours of patterns
behaviour.py what heads do, and what scores are worth, as screens, pages and notebooks say it
notebook.py  HTML of a result
terminal/    screens
pictures/    PNG, SVG and PDF
page/        the offline page
"""
