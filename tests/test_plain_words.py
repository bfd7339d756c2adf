"""README and docs are short, and say things in plain words."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGE = [
    path for path in (ROOT / "attnscan").rglob("*.*") if path.suffix in (".py", ".js", ".j2")
]
MOST_WORDS = 18_000
MOST_WORDS_OF_THE_README = 1_200
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
NO_NAMES = re.compile(r"^ *(each|found|one) = |\bfor (\w+, )?(each|found|one)(, \w+)? in ")


def words(path: Path) -> int:
    """As `wc -w` counts them."""
    return len(path.read_text(encoding="utf-8").split())


def unclear(path: Path) -> list[str]:
    """A line for each phrase that is not used, with what to write, and for each variable whose name
    says nothing.
    """
    wrong = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        better = [write for phrase, write in INSTEAD.items() if re.search(phrase, line)]
        better += (
            ["what the variable holds"] if path.suffix == ".py" and NO_NAMES.search(line) else []
        )
        wrong += [f"{path}:{number}: {line.strip()}; write: {write}" for write in better]
    return wrong


def test_all_pages_together_have_at_most_18_000_words_and_the_readme_1_200() -> None:
    counts = {str(page.relative_to(ROOT)): words(page) for page in PAGES}
    longest = sorted(counts.items(), key=lambda item: -item[1])[:5]
    assert sum(counts.values()) <= MOST_WORDS, (
        f"{sum(counts.values())} words; the longest pages are {longest}"
    )
    assert counts["README.md"] <= MOST_WORDS_OF_THE_README


def test_pages_and_the_package_say_it_in_plain_words() -> None:
    assert [line for path in (*PAGES, *PACKAGE) for line in unclear(path)] == []


def test_what_says_it_otherwise_is_found(tmp_path: Path) -> None:
    """A control."""
    (module := tmp_path / "module.py").write_text(
        '"""It cannot be had."""\n\nfound = [1 for _, one in ()]\nfour = 4\n'
    )
    assert [line.rsplit("; ", 1)[1] for line in unclear(module)] == [
        "write: is not available",
        "write: what the variable holds",
    ]


def test_the_glossary_has_at_most_20_terms() -> None:
    terms = re.findall(
        r"^\| \*\*(.+?)\*\*",
        (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert 10 < len(terms) <= 20 and len(set(terms)) == len(terms)


def test_each_version_in_the_changelog_has_at_most_120_lines_and_each_heading_once() -> None:
    versions = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for version in versions:
        headings = re.findall(r"^### (\w+)", version, re.MULTILINE)
        assert len(version.splitlines()) <= 120 and len(headings) == len(set(headings)), (
            version.splitlines()[0]
        )
