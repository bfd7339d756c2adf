"""Which heads follow the names of Python code: from a name to its last assignment, and from a call
to the function that it calls.

    python examples/code_links.py [FILE.py ...]

Over functions and classes of the standard library if no file is named. Python's own `ast` knows the
links, so that no annotation is needed; each function or class is an input.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import keyword
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attnscan

MODULES = (
    "bisect cmd code colorsys configparser copyreg difflib filecmp fnmatch graphlib heapq pprint "
    "sched selectors shelve shlex statistics string tempfile textwrap timeit tokenize trace"
)
MOST_WORDS = 200  # of an input: longer classes are taken method by method
Position = tuple[int, int]


def inputs_of(tree: ast.AST) -> Iterator[str]:
    """Every function and class that is short enough, the widest first, without docstrings."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        text = ast.unparse(WithoutDocstrings().visit(node))
        if len(words_of(text)) <= MOST_WORDS:
            yield text
        elif isinstance(node, ast.ClassDef):
            yield from inputs_of(node)


class WithoutDocstrings(ast.NodeTransformer):
    """Takes out strings that stand by themselves."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if is_text else node


def words_of(source: str) -> dict[Position, tokenize.TokenInfo]:
    """The tokens of Python in a text, by their lines and columns, without line ends and indents."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start: token for token in tokens if token.string.strip()}


def links_of(source: str) -> Iterator[tuple[str, Position, Position]]:
    """Relation, query and target, where these begin in the text."""
    assigned: dict[str, list[Position]] = {}
    defined: dict[str, Position] = {}
    used: list[tuple[str, str, Position]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            defined[node.name] = (node.lineno, node.col_offset + len("def "))
        elif isinstance(node, ast.arg):
            assigned.setdefault(node.arg, []).append((node.lineno, node.col_offset))
        elif isinstance(node, ast.Name):
            place = (node.lineno, node.col_offset)
            if isinstance(node.ctx, ast.Store):
                assigned.setdefault(node.id, []).append(place)
            else:
                used.append(("assigned", node.id, place))
                used.append(("call", node.id, place))
        elif isinstance(node, ast.Attribute):
            end = (node.end_lineno or 0, (node.end_col_offset or 0) - len(node.attr))
            used.append(("call", node.attr, end))
    for relation, name, place in used:
        if relation == "call" and name in defined:
            yield relation, place, defined[name]
        earlier = [other for other in assigned.get(name, ()) if other < place]
        if relation == "assigned" and earlier:
            yield relation, place, max(earlier)


def kind_of(token: tokenize.TokenInfo) -> str:
    """The kind of a word, by which attnscan makes rules: the nearest name, the nearest number."""
    return "KEYWORD" if keyword.iskeyword(token.string) else tokenize.tok_name[token.type]


def record_of(source: str, document: str) -> dict[str, Any]:
    """An input as `--links` takes it."""
    words = words_of(source)
    numbers = {place: number for number, place in enumerate(words)}
    links = []
    for relation, query, target in links_of(source):
        if query in numbers and target in numbers and query != target:
            links.append([relation, numbers[query], numbers[target]])
    texts = [token.string for token in words.values()]
    tags = [kind_of(token) for token in words.values()]
    text = " ".join(texts)
    return {"text": text, "words": texts, "links": links, "tags": tags, "document": document}


def sources() -> list[Path]:
    """The files that are named, else some of the standard library."""
    if sys.argv[1:]:
        return [Path(name) for name in sys.argv[1:]]
    specs = [importlib.util.find_spec(name) for name in MODULES.split()]
    return [Path(spec.origin) for spec in specs if spec and spec.origin]


def main() -> None:
    """Print what heads follow, and the best heads of each relation."""
    records = []
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for text in inputs_of(tree):
            records.append(record_of(text, path.stem))
    result = attnscan.syntax(links=records, special="in", on_long="skip")
    frame = result.best().query("relation != 'all'")
    print(f"{len(records)} functions and classes, {result.words:,} words")
    columns = ["relation", "direction", "layer", "head", "n", "accuracy", "rule", "rule_accuracy"]
    print(frame[[*columns, "gain", "holds"]].round(2).to_string(index=False))


if __name__ == "__main__":
    main()
