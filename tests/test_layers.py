"""The walls between the rooms: which package may import which, read from the source itself."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import attnscan
from attnscan.cli import app

ROOT = Path(attnscan.__file__).parent
SOURCES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}
LAYERS = (
    ("__version__", "text"),
    "errors",
    "inputs",
    "results",
    "model",
    "scoring",
    ("views", "scan"),
    "studies",
    "api",
    "server",
    "cli",
)
"""From the ground up: a room imports only what lies below it."""
MOST_WITH_ONE_USER = 17
PUBLIC = {"attnscan", "attnscan.__main__"}
"""The way in: these import from the top, and nothing imports them."""
NO_TORCH = {
    f"attnscan.{name}"
    for name in (
        *("__version__", "cli", "errors", "results", "text", "views", "model.sources", "scan.options"),
        *("inputs.annotations", "inputs.encode", "inputs.files", "inputs.read", "inputs.records", "inputs.sentence"),
        *("inputs.weights", "scan.per_pair", "scoring.blocks", "scoring.patterns", "scoring.labels"),
    )
}
"""Packages and modules that work where there is neither torch nor transformers."""


@cache
def _imports(name: str) -> set[str]:
    """All that a module imports, wherever the import stands: at its top, in a function, or for types alone."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(SOURCES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            imported.update((whole & set(SOURCES)) or {node.module})
    return imported - {name}


@cache
def arrows() -> dict[str, set[str]]:
    """Which of our own modules each imports."""
    return {name: _imports(name) & set(SOURCES) for name in SOURCES}


def _room(name: str) -> str:
    """The package, or the module at the top, that a module belongs to."""
    return name.split(".")[1] if "." in name else name


def _floor(name: str) -> int:
    room = _room(name)
    return next(floor for floor, layer in enumerate(LAYERS) if room == layer or room in layer)


def _is_breach(name: str, other: str) -> bool:
    if other == "attnscan" and _room(name) == "cli":
        return False  # the command line calls the library as programs do
    return _room(name) != _room(other) and (other in PUBLIC or _floor(other) >= _floor(name))


def _breaches(arrows: dict[str, set[str]]) -> list[str]:
    inside = sorted(set(arrows) - PUBLIC)
    return [f"{name} -> {other}" for name in inside for other in sorted(arrows[name]) if _is_breach(name, other)]


def test_every_room_has_a_floor() -> None:
    named = {room for layer in LAYERS for room in ([layer] if isinstance(layer, str) else layer)}
    assert {_room(name) for name in set(SOURCES) - PUBLIC} == named


def test_arrows_run_down() -> None:
    assert _breaches(arrows()) == []


def test_arrows_that_do_not_are_found() -> None:
    """A control."""
    wrong = {"attnscan.results.terms": {"attnscan.scan.local", "attnscan.results.files", "attnscan"}}
    assert _breaches(wrong) == ["attnscan.results.terms -> attnscan", "attnscan.results.terms -> attnscan.scan.local"]


def test_views_look_at_results_alone() -> None:
    patterns = {f"attnscan.scoring.{name}" for name in ("patterns", "cross")}
    below = patterns | {"attnscan.model.sources"}  # the last for typing
    for name in (name for name in SOURCES if _room(name) == "views"):
        for other in arrows()[name] - below:
            assert _room(other) in ("views", "results", "errors", "text"), f"{name} -> {other}"


def test_the_library_alone_knows_the_server_by_a_name_that_is_looked_up() -> None:
    """So that all others run where nothing of its extra is installed."""
    users = {name for name in SOURCES if any(_room(other) == "server" for other in arrows()[name])}
    assert {name for name in users if _room(name) != "server"} == {"attnscan"}


SERVER = {name for name in SOURCES if _room(name) == "server"}
RUNNING = {f"attnscan.{name}" for name in ("model.running", "model.tap", "model.loading", "scan.scanner")}


@pytest.mark.parametrize(
    ("library", "those"),
    [
        ("pydantic", SERVER),
        ("starlette", SERVER),
        ("uvicorn", SERVER),
        ("tokenizers", set()),
        ("transformers", RUNNING),
    ],
)
def test_few_modules_meet_a_library(library: str, those: set[str]) -> None:
    users = {name for name in SOURCES if any(other.split(".")[0] == library for other in _imports(name))}
    assert users <= those and bool(users) == bool(those)


def test_no_circles() -> None:
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_scoring_does_not_know_the_patterns() -> None:
    assert "attnscan.scoring.patterns" not in arrows()["attnscan.scoring.scorer"]


def test_every_group_of_commands_is_a_module_of_its_name() -> None:
    commands = {name for name in SOURCES if name.startswith("attnscan.cli.commands.")}
    assert {f"attnscan.cli.commands.{name.lower().replace(' ', '_')}" for name in app.LISTED} == commands
    in_functions = {"attnscan.cli.options", "attnscan.cli.output"}  # those that read options and run a command
    light = {f"attnscan.{name}" for name in ("errors", "__version__")} | in_functions
    assert arrows()["attnscan.cli.app"] <= light  # no command is imported before it is asked for


def test_packages_hold_a_list_of_their_files_and_no_code() -> None:
    for name, path in SOURCES.items():
        if path.name == "__init__.py" and name != "attnscan":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            listed = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            assert len(body) == 1, name
            files = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
            assert name == "attnscan.cli.commands" or files == {w for w in listed.split() if w.endswith(".py")}, name


def _loads_without(libraries: set[str], names: set[str]) -> list[str]:
    """Of some modules those that cannot be imported where some libraries cannot, each with the reason."""
    script = (
        "import importlib, sys\n"
        f"sys.modules |= dict.fromkeys({sorted(libraries)!r})\n"
        f"for name in {sorted(names)!r}:\n"
        "    try:\n        importlib.import_module(name)\n"
        "    except ImportError as error:\n        print(name, error)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_torch_free() -> None:
    names = {room: {name for name in SOURCES if f"{name}.".startswith(f"{room}.")} for room in NO_TORCH}
    assert [room for room in names if not names[room]] == []
    assert _loads_without({"torch", "transformers"}, set().union(*names.values())) == []
    assert len(_loads_without({"torch", "transformers"}, {"attnscan.scoring.scorer"})) == 1  # a control


def test_transformers_is_imported_by_no_module_of_ours_but_by_a_model_that_is_loaded() -> None:
    assert _loads_without({"transformers"}, set(SOURCES) - {"attnscan.__main__"}) == []


NO_MODEL = [
    ["--help"],
    ["--version"],
    ["patterns"],
    ["patterns", "identical"],
    ["classify", "--help"],
    ["classify", ""],
    ["classify", "a", "--pattern", "nextword"],
    ["classify", "a", "--model", "./nowhere"],
    ["show", "two", "a"],
    ["heads", "--pairs", "nowhere.csv"],
    ["plot", "--help"],
    ["ablate", "--help"],
]


def test_answers_that_need_no_model_load_no_torch() -> None:
    """One after the other in one process."""
    script = (
        "import sys\n"
        "from attnscan.cli.app import main\n"
        f"for arguments in {NO_MODEL!r}:\n"
        "    sys.argv = ['attnscan', *arguments]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "    heavy = {'torch', 'transformers', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "    print('loaded by', arguments, sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("loaded by")]
    assert told == [f"loaded by {arguments} []" for arguments in NO_MODEL]


def test_modules_with_one_user_stay_few() -> None:
    """One with little of its own belongs into its user. Commands and studies are called by one place each."""
    users = {name: {user for user, imported in arrows().items() if name in imported} for name in SOURCES}
    alone = {name: next(iter(own)) for name, own in users.items() if len(own) == 1 and name not in PUBLIC}
    counted = [name for name, user in alone.items() if user != "attnscan" and ".cli.commands." not in user]
    assert len(counted) <= MOST_WITH_ONE_USER
