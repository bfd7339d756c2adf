"""The page, offline and alive.

page.py   a result to one HTML file: one input token by token; over many pairs, labels and scores
kinds.py  pages of one input put together: kinds of attention of an encoder-decoder
trees.py  pages of one input put together: sentences of a treebank with their trees
live.py   the same pages with a server behind them, and what that sends to their scripts
frame.py  what every page is: template, policy, what it says of heads
table.py  every head's labels, scores and where attention goes, in each reading
cargo.py  what a page holds of the attention, within its size
web/      its template, styles and scripts
"""
