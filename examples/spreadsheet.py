"""From the CSV of `attnscan heads --best` to a workbook: a row a head, a column a pattern, coloured by score.

python examples/spreadsheet.py heads.csv scores.xlsx        (needs xlsxwriter)
"""

from __future__ import annotations

import sys

import pandas as pd

CSV, WORKBOOK, *_ = [*sys.argv[1:], *["heads.csv", "scores.xlsx"][len(sys.argv) - 1 :]]

ranked = pd.read_csv(CSV)
scores = ranked.pivot(index=["layer", "head"], columns="pattern", values="score")
errors = ranked.pivot(index=["layer", "head"], columns="pattern", values="se")
with pd.ExcelWriter(WORKBOOK, engine="xlsxwriter") as book:
    for name, table in (("scores", scores), ("standard errors", errors), ("ranked", ranked.set_index("rank"))):
        table.to_excel(book, sheet_name=name, merge_cells=False, freeze_panes=(1, table.index.nlevels))
    colours = {"min_type": "num", "min_value": 0, "min_color": "#FFFFFF", "max_type": "num", "max_value": 1}
    book.sheets["scores"].conditional_format(
        1, 2, len(scores), 1 + scores.shape[1], colours | {"type": "2_color_scale", "max_color": "#3D8FD6"}
    )
print(f"{WORKBOOK}: {len(scores)} heads, {scores.shape[1]} patterns")
