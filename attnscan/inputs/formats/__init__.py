"""One module a format: a stream of bytes -> rows.

row.py           a row before it is a pair, and its bounds
lines.py         the lines of a text, each bounded
delimited.py     CSV and TSV, and texts of a sentence a line
dialect.py       separators, quotes and headers, told by their looks
json_records.py  JSON lines, and JSON documents
columnar.py      Parquet and Arrow
workbook.py      Excel's .xlsx
"""
