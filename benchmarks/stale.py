"""Says which tables of RESULTS.md are older than the code that they measure.

    python benchmarks/stale.py

A table that was made by hand says `<!-- of COMMIT: PATH ... -->` above it. It is stale if a commit
since that one has changed any of the paths.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
_OF_COMMIT = re.compile(r"<!-- of (?P<commit>[0-9a-f]{7,40}): (?P<paths>[^\n]+?) -->")
_HEADING = re.compile(r"^###? (.+)$", re.MULTILINE)


def commits_since(commit: str, paths: list[str]) -> int | None:
    """How many commits have changed some paths since one; None where git does not know it."""
    words = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", *paths]
    found = subprocess.run(
        words, cwd=RESULTS.parents[1], capture_output=True, text=True, check=False
    )
    return None if found.returncode else int(found.stdout)


def stale(text: str) -> Iterator[str]:
    """A line for each table that is older than its code."""
    for mark in _OF_COMMIT.finditer(text):
        headings = _HEADING.findall(text[: mark.start()])
        name = headings[-1] if headings else "a table"
        count = commits_since(mark["commit"], mark["paths"].split())
        if count is None:
            yield f"{name}: commit {mark['commit']} is not known here"
        elif count:
            changes = "1 commit has" if count == 1 else f"{count} commits have"
            yield f"{name}: {changes} changed {mark['paths']} since {mark['commit']}"


def main() -> None:
    """Print what is stale."""
    for line in stale(RESULTS.read_text(encoding="utf-8")):
        print(f"RESULTS.md is older than the code: {line}")


if __name__ == "__main__":
    main()
