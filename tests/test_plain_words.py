"""README, docs and the package say things in plain words."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGE = [
    path for path in (ROOT / "attnscan").rglob("*.*") if path.suffix in (".py", ".js", ".j2")
]
INSTEAD = {
    r"cannot be had": "is not available",
    r"comes? along with": "ships with",
    r"is waited for": "times out",
    r"drawn anew|drawings of|resamplings": "bootstrap resamples",
    r"the same, (?:one|but)": "what it does, again",
    r"told apart": "distinguished",
    r"goes? on from (?:there|it)|gone on from": "resumes",
    r"would change it": "is not stable under resampling",
    r"has? little to give": "has a short value vector",
    r"fit alike": "overlapping parts share the weight",
    r"nobody knows": "is unknown",
    r"refused in one line": "refused with a one-line error",
    r"what comes of it": "the result",
    r"by the looks|by (?:its|their) looks": "detected",
    r"leads? on\b": "continues",
    r"no answer for": "timed out after",
    r"\bsound (?:file|CSV|JSON)\b|not a sound|is not sound": "valid",
    r"farthest above chance, by": "closest",
    r"\bheeded\b": "used",
    r"(?:errors|bars?|) ?of nothing\b": "of 0",
    r"cannot be told (?:from|apart)|cannot tell .{0,20}apart": "is not distinguished from",
    r"has a way of its own|in a way of its own": "by itself",
    r"pairs would change": "changed in bootstrap resamples",
    r"(?<!there )is no (?:window|function|file|model|pattern|list)\b": "is not a",
}
"""Phrases that are not used, as regular expressions, and what to write."""


def unclear(path: Path) -> list[str]:
    """A line for each phrase that is not used, with what to write."""
    wrong = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for phrase, write in INSTEAD.items():
            if re.search(phrase, line):
                wrong.append(f"{path}:{number}: {line.strip()}; write: {write}")
    return wrong


def test_pages_and_the_package_say_it_in_plain_words() -> None:
    assert [line for path in (*PAGES, *PACKAGE) for line in unclear(path)] == []


def test_a_phrase_that_is_not_used_is_found(tmp_path: Path) -> None:
    """A control."""
    page = tmp_path / "page.md"
    page.write_text("The model cannot be had.\n\nIt is loaded.\n", encoding="utf-8")
    assert [line.rsplit("; ", 1)[1] for line in unclear(page)] == ["write: is not available"]
