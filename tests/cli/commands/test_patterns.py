"""`attnscan patterns`: all seven."""

from __future__ import annotations

import re

from command_line import COLUMNS, run


def test_patterns_prints_all_seven() -> None:
    text = run("patterns").stdout
    for pattern in COLUMNS.split(",")[6:13]:
        assert re.search(rf"^[A-Z] {pattern}: ", text, re.MULTILINE)
