"""The walls between the rooms: which package may import which, read from the source itself by
grimp.
"""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import attnscan
from attnscan.cli.commands_table import COMMANDS

GRAPH = grimp.build_graph("attnscan", include_external_packages=True, cache_dir=None)
MODULES = {name for name in GRAPH.modules if name.split(".")[0] == "attnscan"}
LAYERS: tuple[str | set[str], ...] = (
    "cli",
    "server",
    "api",
    "studies",
    {"views", "scan"},
    "scoring",
    "model",
    "results",
    "inputs",
    "errors",
    {"__version__", "text"},
)
"""From the top to the ground: a room imports only what lies below it."""
PUBLIC = {"attnscan", "attnscan.__main__"}
"""The way in: these import from the top, and nothing but the command line imports them."""
NO_TORCH = {
    f"attnscan.{name}"
    for name in (
        *(
            "__version__",
            "cli",
            "errors",
            "results",
            "text",
            "views",
            "model.sources",
            "scan.options",
        ),
        *(
            "inputs.annotations",
            "inputs.decoding",
            "inputs.delimited",
            "inputs.encode",
            "inputs.files",
            "inputs.json_records",
            "inputs.read",
            "inputs.records",
            "inputs.sentence",
            "inputs.spelling",
            "inputs.tables",
            "inputs.vocabulary",
        ),
        *(
            "inputs.weights",
            "scan.per_pair",
            "scoring.blocks",
            "scoring.patterns",
            "scoring.labels",
        ),
    )
}
"""Packages and modules that work where there is neither torch nor transformers."""


def _imported_by(name: str) -> set[str]:
    """Which of our own modules one imports, wherever the import stands: at its top, in a function,
    for types alone.
    """
    return GRAPH.find_modules_directly_imported_by(name) & MODULES


def _room(name: str) -> str:
    """The package, or the module at the top, that a module belongs to."""
    return name.split(".")[1] if "." in name else name


def _in_room(room: str) -> set[str]:
    return {name for name in MODULES if _room(name) == room}


def test_rooms_import_only_what_lies_below_them() -> None:
    rooms = set[str]()
    for layer in LAYERS:
        rooms |= {layer} if isinstance(layer, str) else layer
    assert {_room(name) for name in MODULES - PUBLIC} == rooms
    assert (
        GRAPH.find_illegal_dependencies_for_layers(layers=LAYERS, containers={"attnscan"}) == set()
    )
    upside_down = GRAPH.find_illegal_dependencies_for_layers(
        layers=LAYERS[::-1], containers={"attnscan"}
    )
    assert len(upside_down) > 20  # a control
    users = set().union(*(GRAPH.find_modules_that_directly_import(name) for name in PUBLIC))
    assert users <= _in_room("cli") | PUBLIC  # the command line calls the library as programs do


def test_views_look_at_results_alone() -> None:
    below = {
        "attnscan.scoring.patterns",
        "attnscan.scoring.cross",
        "attnscan.model.sources",
    }  # the last for typing
    for name in _in_room("views"):
        for other in _imported_by(name) - below:
            assert _room(other) in ("views", "results", "errors", "text"), f"{name} -> {other}"


def test_only_the_library_names_the_server() -> None:
    """So that all others run where nothing of its extra is installed."""
    users = {name for name in MODULES if _imported_by(name) & _in_room("server")}
    assert users - _in_room("server") == {"attnscan"}


RUNNING = {
    f"attnscan.{name}"
    for name in (
        "model.attention_functions",
        "model.checkpoint",
        "model.forward",
        "model.in_memory",
        "model.loading",
        "model.task_heads",
        "scan.scanner",
        "api.training",  # transformers' Trainer calls it
    )
}


@pytest.mark.parametrize(
    ("library", "those"),
    [
        ("pydantic", _in_room("server")),
        ("starlette", _in_room("server")),
        ("uvicorn", _in_room("server")),
        ("tokenizers", set()),
        ("transformers", RUNNING),
    ],
)
def test_few_modules_meet_a_library(library: str, those: set[str]) -> None:
    users = GRAPH.find_modules_that_directly_import(library) if library in GRAPH.modules else set()
    assert users <= those and bool(users) == bool(those)


def test_no_circles() -> None:
    try:
        TopologicalSorter({name: _imported_by(name) for name in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_every_module_of_commands_is_in_the_table_of_commands() -> None:
    modules = GRAPH.find_children("attnscan.cli.commands")
    named = {command.module for command in COMMANDS if command.module is not None}
    assert {f"attnscan.cli.commands.{name}" for name in named} == modules


def test_no_command_is_imported_before_it_is_asked_for() -> None:
    light = {"errors", "__version__", "cli.commands_table"}
    in_functions = {"cli.calls", "cli.options", "cli.output"}
    allowed = {f"attnscan.{name}" for name in light | in_functions}
    assert _imported_by("attnscan.cli.app") <= allowed


def test_packages_hold_a_list_of_their_files_and_no_code() -> None:
    for path in Path(attnscan.__file__).parent.glob("*/**/__init__.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        listed = {word for word in (ast.get_docstring(tree) or "").split() if word.endswith(".py")}
        assert len(tree.body) == 1, path
        files = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
        assert path.parent.name == "commands" or files == listed, path


def _loads_without(libraries: set[str], names: set[str]) -> list[str]:
    """Of some modules those that cannot be imported where some libraries cannot, each with the
    reason.
    """
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
    names = set[str]()
    for room in NO_TORCH:
        in_room = {name for name in MODULES if f"{name}.".startswith(f"{room}.")}
        assert in_room, room
        names |= in_room
    assert _loads_without({"torch", "transformers"}, names) == []
    assert (
        len(_loads_without({"torch", "transformers"}, {"attnscan.scoring.pattern_scorer"})) == 1
    )  # a control


def test_only_a_model_that_is_loaded_imports_transformers() -> None:
    assert _loads_without({"transformers"}, MODULES - {"attnscan.__main__"}) == []


LINES = (
    "--help",
    "--version",
    "patterns",
    "patterns identical",
    "classify --help",
    "plot --help",
    "ablate --help",
)
WRONG = (
    "classify a --pattern nextword",
    "classify a --model ./nowhere",
    "show two a",
    "heads --pairs nowhere.csv",
)
NO_MODEL = [*(line.split() for line in (*LINES, *WRONG)), ["classify", ""]]


def test_answers_that_need_no_model_load_no_torch() -> None:
    """One after the other in one process."""
    script = (
        "import sys\n"
        "from attnscan.cli.app import main\n"
        f"for arguments in {NO_MODEL!r}:\n"
        "    sys.argv = ['attnscan', *arguments]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "    libraries = {'torch', 'transformers', 'numpy', 'pandas', 'matplotlib'}\n"
        "    heavy = libraries & set(sys.modules)\n"
        "    print('loaded by', arguments, sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("loaded by")]
    assert lines[: len(LINES)] == [f"loaded by {line.split()} []" for line in LINES]
    for line, arguments in zip(lines, NO_MODEL, strict=True):
        assert line in (f"loaded by {arguments} []", f"loaded by {arguments} ['numpy']")
