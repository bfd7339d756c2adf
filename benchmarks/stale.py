"""Says which tables of RESULTS.md are older than the code that they measure.

    python benchmarks/stale.py

A table says `<!-- of COMMIT: PATH ... -->` below its heading, by hand or as `make bench` writes it.
It is stale if a commit since that one has changed any of the paths. A table that does not say so,
or that names a commit or a path that is not there, cannot be told, and is listed, too.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
_BY_HAND = "\n## By hand\n"  # tables above are those of `make bench`, with one mark for all
_SECTION = re.compile(r"^### (.+)$", re.MULTILINE)
_OF_COMMIT = re.compile(r"<!-- of (?P<commit>[0-9a-f]{7,40}): (?P<paths>[^\n]+?) -->")


def stale(results: Path) -> Iterator[str]:
    """A line for each table that is older than its code, or cannot be told."""
    root = results.parents[1]
    measured, _, by_hand = results.read_text(encoding="utf-8").partition(_BY_HAND)
    _, *sections = _SECTION.split(by_hand)
    tables = [("What make bench writes", measured)]
    tables += zip(sections[::2], sections[1::2], strict=True)
    for name, text in tables:
        mark = _OF_COMMIT.search(text)
        if mark is None:
            yield f"{name}: it does not say of which commit it is"
            continue
        why = why_stale(root, mark["commit"], mark["paths"].split())
        if why:
            yield f"{name}: {why}"


def why_stale(root: Path, commit: str, paths: Sequence[str]) -> str:
    """How some paths have changed since a commit; empty if they have not."""
    missing = [path for path in paths if not (root / path).exists()]
    if missing:
        return f"there is no {', '.join(missing)}"
    count = _commits_since(root, commit, paths)
    if count is None:
        return f"commit {commit} is not known here"
    changes = "1 commit has" if count == 1 else f"{count} commits have"
    return f"{changes} changed {' '.join(paths)} since {commit}" if count else ""


def _commits_since(root: Path, commit: str, paths: Sequence[str]) -> int | None:
    """How many commits have changed some paths since one; None where git does not know it."""
    words = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", *paths]
    found = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    return None if found.returncode else int(found.stdout)


def main() -> None:
    """Print what is stale."""
    for line in stale(RESULTS):
        print(f"RESULTS.md is not of this code: {line}")


if __name__ == "__main__":
    main()
