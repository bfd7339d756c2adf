"""Streams of bytes -> rows, one module a format.

lines.py         lines of text
delimited.py     CSV, TSV, and text files; guesses of separators, quotes and headers
json_records.py  JSON lines, and JSON documents
columnar.py      Parquet and Arrow
workbook.py      Excel's .xlsx, by pandas
conllu.py        treebanks
"""
