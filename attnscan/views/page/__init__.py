"""The offline page.

page.py   a classification and its attention to one HTML file
cargo.py  what a page holds of the attention, within its size
web/      its template, styles and scripts
"""
