"""Whether the tests notice faults: each patch beside this file puts one into the package, and its tests must fail.

    python tests/faults/run.py [NAME ...]

A NAME is a patch's, with or without `.patch`, or begins some: `scoring` runs all faults of that room. The first line of
a patch says what is wrong, the second which tests are to notice; git ignores what stands before the difference. Prints
a table, and exits with 1 unless every fault is caught.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
QUIETLY = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "-n", "0")
SOME_TEST_FAILED, ALL_PASSED = 1, 0  # what pytest exits with; where it cannot run tests, that is another number


@dataclass(frozen=True)
class Fault:
    """A patch, what it makes wrong, and which tests are to notice."""

    path: Path
    said: str
    tests: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the head of a patch."""
        said, tests, *_ = path.read_text(encoding="utf-8").splitlines()
        if not tests.startswith("Tests: "):
            sys.exit(f"{path}: its second line does not name its tests")
        return cls(path, said, tuple(tests.removeprefix("Tests: ").split()))

    def applied(self, *options: str) -> bool:
        """Whether git applies the patch, or with `-R` takes it back."""
        command = ("git", "apply", *options, str(self.path))
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0

    def outcome(self) -> str:
        """What the tests say with the fault in place."""
        if self.applied("-R", "--check"):
            return "is in place already"
        if not self.applied():
            return "does not apply"
        # No bytecode of the fault is left: it could be as new and as long as that of the right code
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = (sys.executable, "-m", "pytest", *QUIETLY, *self.tests)
        try:
            run = subprocess.run(command, cwd=ROOT, capture_output=True, env=environment, check=False)
        finally:
            if not self.applied("-R"):
                sys.exit(f"cannot take back {self.path}: see git diff")
        if run.returncode == SOME_TEST_FAILED and (b"\nFAILED " in run.stdout or b"\nERROR " in run.stdout):
            return "caught"
        return "NOT caught" if run.returncode == ALL_PASSED else "tests do not run"


def main() -> None:
    """Try all faults, or those that are named."""
    names = [name.removesuffix(".patch") for name in sys.argv[1:]]
    paths = sorted(path for path in HERE.glob("*.patch") if not names or path.stem.startswith(tuple(names)))
    if not paths:
        sys.exit("there is no such fault")
    caught = 0
    for path in paths:
        fault = Fault.read(path)
        outcome = fault.outcome()
        caught += outcome == "caught"
        print(f"{outcome:<16}  {path.stem:<50}  {fault.said}", flush=True)
    print(f"{caught} of {len(paths)} faults are caught")
    sys.exit(caught < len(paths))


if __name__ == "__main__":
    main()
