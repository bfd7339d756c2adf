"""The walls between the rooms: who may import what, read from the source itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attnscan
from attnscan import cli

ROOT = Path(attnscan.__file__).parent
SOURCES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}
# These show, read or write results: they must work where there is neither torch nor transformers.
LIGHT = {
    "attnscan",
    "attnscan.arguments",
    "attnscan.attention",
    "attnscan.files.blocks",
    "attnscan.catalog",
    "attnscan.completion",
    "attnscan.cluster",
    "attnscan.cluster.pair_directory",
    "attnscan.errors",
    "attnscan.explaining",
    "attnscan.explaining.explanation",
    "attnscan.files",
    "attnscan.head_weights",
    "attnscan.messages",
    "attnscan.options",
    "attnscan.output",
    "attnscan.pairs",
    "attnscan.files.lock",
    "attnscan.files.per_pair",
    "attnscan.patterns",
    "attnscan.plain",
    "attnscan.files.readers",
    "attnscan.files.remote_files",
    "attnscan.results",
    "attnscan.selection",
    "attnscan.sources",
    "attnscan.studies",
    "attnscan.studies.ablation",
    "attnscan.studies.comparison",
    "attnscan.studies.effect_sums",
    "attnscan.studies.head_sets",
    "attnscan.studies.paired_sums",
    "attnscan.studies.similarity",
    "attnscan.sums",
    "attnscan.tokens",
    "attnscan.views",
    "attnscan.views.ablation",
    "attnscan.views.cargo",
    "attnscan.views.catalog",
    "attnscan.views.checkpoint",
    "attnscan.views.classification",
    "attnscan.views.comparison",
    "attnscan.views.dependencies",
    "attnscan.views.explanation",
    "attnscan.views.head",
    "attnscan.views.page",
    "attnscan.views.layout",
    "attnscan.views.lettering",
    "attnscan.views.notebook",
    "attnscan.views.palette",
    "attnscan.views.plot",
    "attnscan.views.plot_ablation",
    "attnscan.views.plot_comparison",
    "attnscan.views.plot_heads",
    "attnscan.views.plot_map",
    "attnscan.views.plot_scores",
    "attnscan.views.plot_similarity",
    "attnscan.views.ranking",
    "attnscan.views.sheet",
    "attnscan.views.similarity",
    "attnscan.views.terminal",
    "attnscan.views.text",
    "attnscan.files.weights",
    "attnscan.writers",
}

COMMANDS = {name for name in SOURCES if name.startswith("attnscan.commands.")}


def _imports(name: str, *, lazy: bool) -> set[str]:
    """What a module imports when it is imported; with `lazy`, also what its functions import."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.add(child.module)
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            is_typing = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            is_function = isinstance(child, ast.FunctionDef)
            if not is_typing and (lazy or not is_function):
                visit(child)

    visit(ast.parse(SOURCES[name].read_text(encoding="utf-8")))
    return found


def _reached(name: str, *, lazy: bool) -> set[str]:
    """Everything of ours that a module imports, directly or not."""
    reached, waiting = set(), [name]
    while waiting:
        for other in _imports(waiting.pop(), lazy=lazy) & set(SOURCES):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def _outside(name: str) -> set[str]:
    modules = {name, *_reached(name, lazy=True)}
    return {imported.split(".")[0] for module in modules for imported in _imports(module, lazy=True)}


@pytest.mark.parametrize("name", sorted(LIGHT))
def test_light_rooms_reach_neither_torch_nor_transformers(name: str) -> None:
    assert not _outside(name) & {"torch", "transformers"}


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"attnscan.__main__", "attnscan.cli"}))
def test_nothing_imports_the_command_line(name: str) -> None:
    assert "attnscan.cli" not in _reached(name, lazy=True)


def test_scoring_does_not_know_the_patterns() -> None:
    assert "attnscan.patterns" not in _imports("attnscan.score", lazy=True)


@pytest.mark.parametrize("library", ["tokenizers", "transformers"])
def test_who_meets_the_libraries(library: str) -> None:
    users = {name for name in SOURCES if any(i.split(".")[0] == library for i in _imports(name, lazy=True))}
    running = {"attnscan.forward", "attnscan.implementation", "attnscan.outputs"}
    assert users <= running | {"attnscan.models", "attnscan.scanner", "attnscan.task_heads"}


def test_rooms_do_not_import_in_circles() -> None:
    assert not [name for name in SOURCES if name in _reached(name, lazy=False)]


def test_the_command_line_imports_no_command_before_it_is_asked_for() -> None:
    assert {f"attnscan.commands.{name}" for name in cli.COMMANDS} == COMMANDS
    light = {"attnscan.errors", "attnscan.messages", "attnscan.plain"}
    assert _reached("attnscan.cli", lazy=True) == {"attnscan"} | light


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_commands_import_only_light_rooms_at_their_top(name: str) -> None:
    assert _reached(name, lazy=False) <= LIGHT | {
        "attnscan.commands",
        "attnscan.jobs",
        "attnscan.pair_jobs",
        "attnscan.study_jobs",
    }


def test_the_test_can_fail() -> None:
    """A control: the heavy rooms do reach torch, and commands reach the heavy rooms."""
    assert "torch" in _outside("attnscan.score")
    assert "attnscan.scanner" in _reached("attnscan.commands.classify", lazy=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["patterns"],
        ["classify", "--help"],
        ["classify", ""],
        ["plot", "--help"],
        ["ablate", "--help"],
    ],
)
def test_answers_that_need_no_model_load_no_torch(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from attnscan.cli import main\n"
        f"sys.argv = ['attnscan', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "print('loaded:', sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "loaded: []"
