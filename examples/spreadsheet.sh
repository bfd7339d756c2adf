#!/bin/sh
# Compare heads in a spreadsheet: CSV opens in any; a workbook with a row a head and colours is one step more.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

attnscan heads --pairs "$here/pairs.csv" --best --predictive off --csv > heads.csv
python "$here/spreadsheet.py" heads.csv scores.xlsx
