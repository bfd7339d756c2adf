"""Join the page's scripts, which are ES modules, into one: a page is one file, and fetches none.

A module imports names of others by `import { … } from "./name.js";`, and exports what it declares.
Modules stand in the order of their imports, each once, without these words: all names of their top
level share one scope. Where two modules had the same name, or imported each other, no page would
start; the tests say so first. Comments at the beginning of a line stay behind, since a page is
looked at more often than read.
"""

import re
from collections.abc import Callable

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
_COMMENT = re.compile(r"^(?://|/\*\*| \*)[^\n]*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |const |let )", re.MULTILINE)


def join_modules(entry: str, read: Callable[[str], str]) -> str:
    """The text of a module, below those of all that it imports. `read` gives a module's text."""
    joined: dict[str, str] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            circle = " → ".join([*importers, name])
            raise ValueError(f"scripts of the page import each other: {circle}")
        if name in joined:
            return
        text = read(name)
        for imported in _IMPORT.findall(text):
            add(imported, (*importers, name))
        joined[name] = _EXPORT.sub("", _IMPORT.sub("", _COMMENT.sub("", text)))

    add(entry, ())
    return re.sub(r"\n{2,}", "\n", "\n".join(joined.values()))
