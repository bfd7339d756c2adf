"""Whether the tests notice faults: each patch beside this file puts one into the package, and its
tests must fail.

    python tests/faults/run.py [NAME ...]

A NAME is a patch's, with or without `.patch`, or begins some: `scoring` runs all faults of that
room. The first line of a patch says what is wrong, the second which tests are to notice; git
ignores what stands before the difference. Prints a table, and exits with 1 unless every fault is
caught.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
QUIETLY = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "-n", "0")
# what pytest exits with; where it cannot run tests, that is another number
SOME_TEST_FAILED = 1
ALL_PASSED = 0


def apply(patch: Path, *options: str) -> bool:
    """Whether git applies a patch, or with `-R` takes it back."""
    return (
        subprocess.run(
            ("git", "apply", *options, patch), cwd=ROOT, capture_output=True, check=False
        ).returncode
        == 0
    )


def outcome_of(patch: Path, tests: str) -> str:
    """What the tests say with the fault in place."""
    if apply(patch, "-R", "--check"):
        return "is in place already"
    if not apply(patch):
        return "does not apply"
    # No bytecode of the fault is left: it could be as new and as long as that of the right code
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = (sys.executable, "-m", "pytest", *QUIETLY, *tests.split())
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, env=environment, check=False)
    finally:
        if not apply(patch, "-R"):
            sys.exit(f"cannot take back {patch}: see git diff")
    if run.returncode == SOME_TEST_FAILED and (
        b"\nFAILED " in run.stdout or b"\nERROR " in run.stdout
    ):
        return "caught"
    return "NOT caught" if run.returncode == ALL_PASSED else "tests do not run"


if __name__ == "__main__":
    names = tuple(name.removesuffix(".patch") for name in sys.argv[1:])
    patches = [
        path for path in sorted(HERE.glob("*.patch")) if not names or path.stem.startswith(names)
    ]
    caught = 0
    for path in patches:
        fault, tests, *_ = path.read_text(encoding="utf-8").splitlines()
        outcome = outcome_of(path, tests.removeprefix("Tests: "))
        caught += outcome == "caught"
        print(f"{outcome:<16}  {path.stem:<50}  {fault}", flush=True)
    print(f"{caught} of {len(patches)} faults are caught" if patches else "there is no such fault")
    sys.exit(not patches or caught < len(patches))
