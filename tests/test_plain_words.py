"""README and docs are short, and say things in plain words."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((ROOT / "attnscan").rglob("*.py"))
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
NO_NAMES = {"found", "each", "one"}


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


def said(path: Path) -> list[tuple[int, str]]:
    """The numbered texts of a module that are not documentation: what screens, help and errors are made of."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [(node.lineno, str(node.value)) for node in texts if id(node) not in documented]


def nameless(path: Path) -> list[str]:
    """A line for each variable of a module whose name says nothing, and each docstring that leans on another one."""
    tree, lines = ast.parse(path.read_text(encoding="utf-8")), list[str]()
    fields = {id(node.target) for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)}  # --each is an option
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            lines += [f"{path}:{node.lineno}: {node.id}"] * (node.id in NO_NAMES)
        elif isinstance(node, ast.arg) and (node.annotation is None or node.arg != "each"):
            lines += [f"{path}:{node.lineno}: {node.arg}"] * (node.arg in NO_NAMES)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines += [f"{path}:{node.lineno}: The same"] * str(node.value.value).startswith("The same")
    return lines


def unclear(name: Path, texts: list[tuple[int, str]]) -> list[str]:
    """A line for each phrase that is not used, with what to write."""
    return [
        f"{name.relative_to(ROOT)}:{number}: '{match.group()}'; write: {better}"
        for number, text in texts
        for phrase, better in INSTEAD.items()
        for match in re.finditer(phrase, text, re.IGNORECASE)
    ]


def test_all_pages_together_have_at_most_18_000_words_and_the_readme_1_200() -> None:
    counts = {str(page.relative_to(ROOT)): words(page) for page in PAGES}
    longest = sorted(counts.items(), key=lambda item: -item[1])[:5]
    assert sum(counts.values()) <= MOST_WORDS, f"{sum(counts.values())} words; the longest pages are {longest}"
    assert counts["README.md"] <= MOST_WORDS_OF_THE_README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_it_in_plain_words(page: Path) -> None:
    wrong = unclear(page, prose(page))
    assert not wrong, "\n".join(wrong)


def test_screens_help_and_errors_say_it_in_plain_words() -> None:
    wrong = [line for module in MODULES for line in unclear(module, said(module))]
    web = ROOT / "attnscan" / "views" / "page" / "web"
    for script in sorted([*web.glob("*.js"), *web.glob("*.j2")]):
        lines = enumerate(script.read_text(encoding="utf-8").splitlines(), 1)
        shown = [(n, re.sub(r"^\s*(/\*\*|\*).*|\s//.*", "", line)) for n, line in lines]  # but comments
        wrong += unclear(script, shown)
    assert not wrong, "\n".join(wrong)


def test_names_and_docstrings_of_the_package_say_what_they_are_of() -> None:
    wrong = [line for module in MODULES for line in nameless(module)]
    assert not wrong, "\n".join(wrong)


def test_the_glossary_has_at_most_20_terms() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert 10 < len(terms) <= 20 and len(set(terms)) == len(terms)


def test_what_says_it_otherwise_is_found(tmp_path: Path) -> None:
    """A control."""
    (page := tmp_path / "page.md").write_text("It cannot be had.\n\n```text\nIt cannot be had.\n```\n")
    assert prose(page) == [(1, "It cannot be had."), (2, "")]
    (module := tmp_path / "module.py").write_text('"""It cannot be had."""\n\nfound = [f"{1} it" for one in ()]\n')
    assert said(module) == [(3, " it")]
    assert [line.rsplit(" ", 1)[1] for line in nameless(module)] == ["found", "one"]


def test_each_version_in_the_changelog_has_at_most_120_lines_and_each_heading_once() -> None:
    versions = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for version in versions:
        headings = re.findall(r"^### (\w+)", version, re.MULTILINE)
        assert len(version.splitlines()) <= 120 and len(headings) == len(set(headings)), version.splitlines()[0]
