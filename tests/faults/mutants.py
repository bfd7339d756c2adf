"""Whether the tests of a room notice small random faults.

    python tests/faults/mutants.py ROOM N [--seed SEED]

Makes N mutants of a package of attnscan, one after the other, in a copy of the checkout: a
comparison, an operator, a constant or a condition is turned. The room's tests run on each. Prints a
line for each mutant; survivors are those that no test notices, and each is worth a test or a reason
why it changes nothing that a user can see.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("attnscan", "benchmarks", "docs", "examples", "tests", "README.md", "pyproject.toml")
QUIETLY = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--hypothesis-profile", "quick")
SECONDS = 600  # a mutant that runs longer is noticed: some loop does not end

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
            left = ast.unparse(node.left)
            right = ast.unparse(node.right)
            return f"({left}) {OPERATORS[type(operator)]} ({right})"
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
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            replaced.append((node.test, f"(not ({ast.unparse(node.test)}))"))
        for expression, after in replaced:
            if "TYPE_CHECKING" in after:
                continue
            start = line_starts[expression.lineno - 1] + expression.col_offset
            end = line_starts[(expression.end_lineno or 0) - 1] + (expression.end_col_offset or 0)
            before = " ".join(source[start:end].decode().split())
            yield Mutant(path, expression.lineno, start, end, before, after)


def pass_in(copy: Path, room: str) -> bool:
    """Whether the room's tests pass in a copy of the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *QUIETLY, "-n", "0", f"tests/{room}"]
    try:
        run = subprocess.run(
            command, cwd=copy, capture_output=True, env=environment, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def is_noticed(mutant: Mutant, copy: Path, room: str) -> bool:
    """Whether the room's tests fail on a mutant, which is planted in a copy of the checkout."""
    planted = copy / mutant.path.relative_to(ROOT)
    source = planted.read_bytes()
    planted.write_bytes(source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
    try:
        return not pass_in(copy, room)
    finally:
        planted.write_bytes(source)


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


def main() -> None:
    """Plant mutants, and list which of them no test notices."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("room", help="a package of attnscan, such as scoring")
    parser.add_argument("count", type=int, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="chooses other mutants")
    arguments = parser.parse_args()
    mutants = list[Mutant]()
    for path in sorted((ROOT / "attnscan" / arguments.room).rglob("*.py")):
        mutants += mutants_in(path)
    chosen = random.Random(arguments.seed).sample(mutants, arguments.count)
    noticed = 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "checkout"
        copy_checkout(copy)
        if not pass_in(copy, arguments.room):
            sys.exit("the tests fail without a mutant")
        for mutant in chosen:
            killed = is_noticed(mutant, copy, arguments.room)
            noticed += killed
            print(f"{'noticed ' if killed else 'SURVIVES'}  {mutant}", flush=True)
    print(f"{noticed} of {len(chosen)} mutants are noticed, of {len(mutants)} that can be made")
    sys.exit(noticed < len(chosen))


if __name__ == "__main__":
    main()
