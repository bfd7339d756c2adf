"""The page, offline and alive.

page.py   results to one HTML file, within its size: one input, several, of which one is shown, or
          many pairs; and a server's answers
facts.py  what its scripts read as JSON: heads, tokens, and the table of every head in each reading
scripts.py joins the scripts, which are ES modules, into one
arrays.py what it holds of the attention, in packed texts
web/      its template, style and scripts; web/vendor/ Preact and htm, with their licences
"""
