"""One pair looked at closely: which words predict which, and a page with every head.

python examples/one_pair.py [A] [B] [MODEL]
"""

from __future__ import annotations

import sys
from pathlib import Path

import attnscan

ARTICLE = ["I went to the store.", "At the store, I bought fresh strawberries.", "bundled"]
A, B, MODEL, *_ = [*sys.argv[1:], *ARTICLE[len(sys.argv) - 1 :]]

helps = attnscan.predictive(A, B, model=MODEL).to_frame()
best = helps.sort_values("help", ascending=False).drop_duplicates("query_token")
print(best[["query_token", "key_token", "help"]].head(3).round(2).to_string(index=False))

result = attnscan.classify(A, B, model=MODEL, predictive="off")
page = attnscan.report(result, heads="0-2,1-8", neurons=False)
Path("page.html").write_text(page.html, encoding="utf-8")
print(f"page.html: {result.label.size} heads, the weights of two")
