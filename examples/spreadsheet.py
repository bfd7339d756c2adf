"""From the CSV of `attnscan heads` to a workbook: a row a head, a column a pattern, coloured by score.

python examples/spreadsheet.py heads.csv scores.xlsx        (needs openpyxl)
"""

from __future__ import annotations

import sys

import pandas as pd
from openpyxl.formatting.rule import ColorScaleRule

CSV, WORKBOOK, *_ = [*sys.argv[1:], *["heads.csv", "scores.xlsx"][len(sys.argv) - 1 :]]

ranked = pd.read_csv(CSV)
scores = ranked.pivot(index=["layer", "head"], columns="pattern", values="score")
errors = ranked.pivot(index=["layer", "head"], columns="pattern", values="se")
with pd.ExcelWriter(WORKBOOK, engine="openpyxl") as book:
    for name, table in (("scores", scores), ("standard errors", errors), ("ranked", ranked.set_index("rank"))):
        table.to_excel(book, sheet_name=name, merge_cells=False, freeze_panes=(1, table.index.nlevels))
    sheet = book.sheets["scores"]
    sheet.conditional_formatting.add(
        f"C2:{sheet.cell(1, sheet.max_column).column_letter}{sheet.max_row}",
        ColorScaleRule(
            start_type="num", start_value=0, start_color="FFFFFF", end_type="num", end_value=1, end_color="3D8FD6"
        ),
    )
print(f"{WORKBOOK}: {len(scores)} heads, {scores.shape[1]} patterns")
