"""The page, offline and alive.

page.py   results to one HTML file: one input token by token, or several of which one is shown; many pairs
trees.py  sentences of a treebank with their trees
live.py   the page with a server behind it, and what that sends to its scripts
frame.py  what every page is: template, policy, scripts
table.py  every head's labels, scores and where attention goes, in each reading
cargo.py  what a page holds of the attention, within its size
web/      its template, style and scripts; web/vendor/ Preact and htm, with their licences
"""
