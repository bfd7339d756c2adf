"""README and docs are short, and say things in plain words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 25_000
MOST_WORDS_OF_THE_README = 1_500
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
}
"""Phrases that are not used, as regular expressions, and what to write."""


def words(path: Path) -> int:
    """As `wc -w` counts them."""
    return len(path.read_text(encoding="utf-8").split())


def prose(path: Path) -> list[tuple[int, str]]:
    """The numbered lines of a page that are not code, screens or signatures."""
    lines, is_code = [], False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith(("    ", "<", "- `")):
            lines.append((number, line))
    return lines


def test_all_pages_together_have_at_most_25_000_words_and_the_readme_1_500() -> None:
    counts = {str(page.relative_to(ROOT)): words(page) for page in PAGES}
    longest = sorted(counts.items(), key=lambda item: -item[1])[:5]
    assert sum(counts.values()) <= MOST_WORDS, f"{sum(counts.values())} words; the longest pages are {longest}"
    assert counts["README.md"] <= MOST_WORDS_OF_THE_README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_it_in_plain_words(page: Path) -> None:
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: '{match.group()}'; write: {better}"
        for number, line in prose(page)
        for phrase, better in INSTEAD.items()
        for match in re.finditer(phrase, line, re.IGNORECASE)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_glossary_has_at_most_20_terms() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert 10 < len(terms) <= 20 and len(set(terms)) == len(terms)


def test_a_page_that_says_it_otherwise_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It cannot be had.\n\n```text\nIt cannot be had.\n```\n")
    assert prose(page) == [(1, "It cannot be had."), (2, "")]
    assert [line for _, line in prose(page) if re.search("|".join(INSTEAD), line)] == ["It cannot be had."]


def test_each_version_in_the_changelog_has_at_most_120_lines_and_each_heading_once() -> None:
    versions = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for version in versions:
        headings = re.findall(r"^### (\w+)", version, re.MULTILINE)
        assert len(version.splitlines()) <= 120 and len(headings) == len(set(headings)), version.splitlines()[0]
