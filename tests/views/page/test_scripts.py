"""The page's scripts: modules, joined in the order of their imports into one."""

import re
from collections import Counter
from pathlib import Path

import pytest

from attnscan.views.page import scripts
from attnscan.views.page.scripts import join_modules

WEB = Path(scripts.__file__).parent / "web"
ENTRIES = ("offline", "live")
_DECLARED = re.compile(r"^(?:async )?(?:function|const|let) (?:(\w+)|\{ ([^}]*) \})", re.MULTILINE)


def _read(name: str) -> str:
    return (WEB / f"{name}.js").read_text("utf-8")


def test_imported_modules_stand_above_once() -> None:
    modules = {
        "entry": 'import { b } from "./b.js";\nimport { c } from "./c.js";\n\nb(c);\n',
        "b": '// Why.\n\nimport {\n  c,\n} from "./c.js";\n\nexport const b = (x) => x + c;\n',
        "c": "/** How many. */\nexport let c = 1; // one\n",
    }
    joined = join_modules("entry", modules.__getitem__)
    assert joined.split("\n") == ["let c = 1; // one", "const b = (x) => x + c;", "b(c);", ""]


def test_circle_of_imports_is_named() -> None:
    modules = {"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'}
    with pytest.raises(ValueError, match="import each other: a → b → a"):
        join_modules("a", modules.__getitem__)


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_name_of_two_modules_is_the_same(entry: str) -> None:
    joined = join_modules(entry, _read)
    assert not re.search(r"^(import|export)\b", joined, re.MULTILINE)
    names: Counter[str] = Counter()
    for name, names_in_braces in _DECLARED.findall(joined):
        names.update([name] if name else names_in_braces.split(", "))
    assert len(names) > 100
    assert names.most_common(1)[0][1] == 1, names.most_common(3)


def test_every_script_is_on_some_page() -> None:
    read = set()
    for entry in ENTRIES:
        join_modules(entry, lambda name: read.add(name) or _read(name))
    assert {path.stem for path in WEB.glob("*.js")} == read


def test_only_a_live_page_has_what_asks_a_server() -> None:
    assert "fetch(" in join_modules("live", _read)
    assert "fetch(" not in join_modules("offline", _read)
