"""Whether the tests of a room notice small random faults.

    python tests/faults/mutants.py ROOM N [--seed SEED] [--only NUMBER ...]

Makes N mutants of a package of attnscan, one after the other, in a copy of the checkout: a
comparison, an operator, a constant or a condition is turned. The tests of the mutated module run on
each and, where they pass, all others of the room, in forks of this process, which has loaded torch.
Prints a line for each mutant; survivors are those that no test notices, and each is worth a test or
a reason why it changes nothing that a user can see. `--only` runs again those of these numbers.
"""

import argparse
import ast
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("attnscan", "benchmarks", "docs", "examples", "tests", "README.md", "pyproject.toml")
# What is loaded once, pytest did not rewrite
REWRITES_LESS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
QUIETLY = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "-n", "0")
DRAWS = ("--hypothesis-profile", "quick", "--hypothesis-seed", "0")  # the same for each mutant
LOADED_ONCE = (
    "torch",
    "transformers",
    "transformers.models.bert.modeling_bert",
    "transformers.models.gpt2.modeling_gpt2",
    "pandas",
    "scipy.stats",
)
"""What takes seconds to load; nothing of attnscan, which each fork loads with its mutant."""
# Tests that compute so many times as long as without a mutant notice it: some loop does not end
SLOWER = 4
MOST_SECONDS = 3600  # by the clock: some mutant waits for something
NO_TESTS = 5  # pytest's exit status where it runs none

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}


@dataclass(frozen=True)
class Mutant:
    """An expression of a file, and what stands in its place."""

    path: Path
    line: int
    start: int  # of the expression, in bytes of the file
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}  {self.before}  ->  {self.after}"


def mutated(node: ast.AST) -> str | None:
    """Another expression in the place of a node; None where nothing is turned."""
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=[right]):
            return f"{ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)}"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            first = ast.unparse(node.left)
            second = ast.unparse(node.right)
            return f"({first}) {OPERATORS[type(operator)]} ({second})"
        case ast.BoolOp(op=operator, values=values):
            other = " or " if isinstance(operator, ast.And) else " and "
            return other.join(f"({ast.unparse(value)})" for value in values)
        case ast.Constant(value=bool() as value):
            return str(not value)
        case ast.Constant(value=int() | float() as value):
            return str(value + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
        case _:
            return None


def expressions(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of annotations and of strings that are formatted."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns") or isinstance(tree, ast.JoinedStr):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node
                yield from expressions(node)


def mutants_in(path: Path) -> Iterator[Mutant]:
    """All mutants of a file, one for each expression that can be turned, and one for each
    condition.
    """
    source = path.read_bytes()
    line_starts = [0]
    for line in source.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    for node in expressions(ast.parse(source)):
        replaced: list[tuple[ast.expr, str]] = []
        after = mutated(node)
        if after is not None:
            replaced.append((node, f"({after})"))  # type: ignore[arg-type]
        # A comparison and a `not` are turned by themselves
        if isinstance(node, ast.If | ast.While | ast.IfExp) and mutated(node.test) is None:
            replaced.append((node.test, f"(not ({ast.unparse(node.test)}))"))
        for expression, after in replaced:
            if "TYPE_CHECKING" in after:
                continue
            start = line_starts[expression.lineno - 1] + expression.col_offset
            end = line_starts[(expression.end_lineno or 0) - 1] + (expression.end_col_offset or 0)
            before = " ".join(source[start:end].decode().split())
            yield Mutant(path, expression.lineno, start, end, before, after)


def tests_of(room: str, copy: Path) -> list[Path]:
    """The room's test files."""
    files = sorted((copy / "tests" / room).rglob("test_*.py"))
    return [file.relative_to(copy) for file in files]


def run_pytest(copy: Path, tests: list[Path], seconds: int) -> None:
    """Run tests in a copy of the checkout, and end this process by their exit status.

    So many seconds of computing end it, too. Without such a limit no mutant is planted: what is
    compiled then is kept for all mutants, whose own file is newer than what was compiled of it.
    """
    if seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    sys.dont_write_bytecode = seconds > 0
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path.insert(0, str(copy))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    pytest = import_module("pytest")
    os._exit(pytest.main([*QUIETLY, *REWRITES_LESS, *DRAWS, *map(str, tests)]))


def pass_in(copy: Path, tests: list[Path], seconds: int = 0) -> bool:
    """Whether tests pass in a copy of the checkout, in so many seconds of computing if not 0.

    All tests of a file may be long, and left out.
    """
    process = get_context("fork").Process(target=run_pytest, args=(copy, tests, seconds))
    process.start()
    process.join(MOST_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode in (0, NO_TESTS)


def is_noticed(mutant: Mutant, copy: Path, tests: list[Path], seconds: int) -> bool:
    """Whether tests fail on a mutant, which is planted in a copy of the checkout."""
    own = [file for file in tests if file.stem == f"test_{mutant.path.stem}"]
    others = [file for file in tests if file not in own]
    planted = copy / mutant.path.relative_to(ROOT)
    source = planted.read_bytes()
    planted.write_bytes(source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
    try:
        return any(files and not pass_in(copy, files, seconds) for files in (own, others))
    finally:
        planted.write_bytes(source)


def load_once() -> None:
    """Load what all forks share, as the tests would load it."""
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    for module in LOADED_ONCE:
        import_module(module)


def copy_checkout(copy: Path) -> None:
    """Copy what the tests need; data beside the checkout are found beside the copy."""
    copy.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        else:
            shutil.copy(ROOT / name, copy / name)
    if (shared := ROOT.parent / "shared").exists():
        (copy.parent / "shared").symlink_to(shared.resolve())


def sample(room: str, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of a room; with a larger count the same ones and more."""
    mutants = list[Mutant]()
    for path in sorted((ROOT / "attnscan" / room).rglob("*.py")):
        mutants += mutants_in(path)
    random.Random(seed).shuffle(mutants)
    return mutants[:count]


def main() -> None:
    """Plant mutants, and list which of them no test notices."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("room", help="a package of attnscan, such as scoring")
    parser.add_argument("count", type=int, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="chooses other mutants")
    parser.add_argument("--only", type=int, nargs="+", help="run those of these numbers")
    parser.add_argument("--list", action="store_true", help="list the mutants, and run none")
    arguments = parser.parse_args()
    room = arguments.room
    mutants = dict(enumerate(sample(room, arguments.count, arguments.seed)))
    if arguments.only is not None:
        mutants = {number: mutants[number] for number in arguments.only}
    if arguments.list:
        for number, mutant in mutants.items():
            print(f"{number:4}  {mutant}")
        return
    load_once()
    noticed = 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "checkout"
        copy_checkout(copy)
        tests = tests_of(room, copy)
        if not pass_in(copy, tests):
            sys.exit("the tests fail without a mutant")
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = int(SLOWER * (usage.ru_utime + usage.ru_stime)) + 1
        for number, mutant in mutants.items():
            killed = is_noticed(mutant, copy, tests, seconds)
            noticed += killed
            outcome = "noticed " if killed else "SURVIVES"
            print(f"{number:4}  {outcome}  {mutant}", flush=True)
    print(f"{noticed} of {len(mutants)} mutants are noticed")
    sys.exit(noticed < len(mutants))


if __name__ == "__main__":
    main()
