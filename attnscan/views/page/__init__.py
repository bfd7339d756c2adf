"""The offline page.

page.py   a classification and its attention to one HTML file
table.py  every head's labels and scores, in each reading
profiles.py  every head's profile in words
cargo.py  what a page holds of the attention, within its size
web/      its template, styles and scripts
"""
