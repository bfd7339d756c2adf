"""The walls between the rooms: who may import what, read from the source itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attnscan
from attnscan.cli import app as cli

ROOT = Path(attnscan.__file__).parent
SOURCES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}
# These show, read or write results: they must work where there is neither torch nor transformers.
LIGHT = {
    "attnscan",
    "attnscan.cli.options",
    "attnscan.results.attention",
    "attnscan.scan.cluster.blocks",
    "attnscan.model.catalog",
    "attnscan.cli.completion",
    "attnscan.scan.cluster",
    "attnscan.scan.cluster.pair_directory",
    "attnscan.errors",
    "attnscan.cli",
    "attnscan.inputs",
    "attnscan.model",
    "attnscan.results",
    "attnscan.results.explanation",
    "attnscan.scan",
    "attnscan.scoring",
    "attnscan.results.terms",
    "attnscan.results.scores",
    "attnscan.results.signature",
    "attnscan.results.files",
    "attnscan.views.pictures",
    "attnscan.views.pictures.look",
    "attnscan.results.head_weights",
    "attnscan.cli.messages",
    "attnscan.scan.options",
    "attnscan.cli.destination",
    "attnscan.inputs.pairs",
    "attnscan.scan.per_pair",
    "attnscan.scoring.patterns",
    "attnscan.safe_text",
    "attnscan.inputs.readers",
    "attnscan.inputs.remote_files",
    "attnscan.results.heads",
    "attnscan.model.sources",
    "attnscan.studies",
    "attnscan.results.ablation",
    "attnscan.results.comparison",
    "attnscan.studies.effect_sums",
    "attnscan.studies.head_sets",
    "attnscan.studies.paired_sums",
    "attnscan.results.similarity",
    "attnscan.scoring.sums",
    "attnscan.inputs.tokens",
    "attnscan.views",
    "attnscan.views.terminal.ablation",
    "attnscan.views.page.cargo",
    "attnscan.views.terminal.models",
    "attnscan.views.terminal.classification",
    "attnscan.views.terminal.comparison",
    "attnscan.views.terminal.dependencies",
    "attnscan.views.terminal.explanation",
    "attnscan.views.terminal.head_weights",
    "attnscan.views.page.page",
    "attnscan.views.pictures.panels",
    "attnscan.views.pictures.lettering",
    "attnscan.views.notebook",
    "attnscan.views.palette",
    "attnscan.views.pictures.picture",
    "attnscan.views.pictures.ablation",
    "attnscan.views.pictures.comparison",
    "attnscan.views.pictures.head_weights",
    "attnscan.views.pictures.map",
    "attnscan.views.pictures.scores",
    "attnscan.views.pictures.similarity",
    "attnscan.views.terminal.ranking",
    "attnscan.views.pictures.sheet",
    "attnscan.views.terminal.similarity",
    "attnscan.views.terminal.parts",
    "attnscan.views.terminal.patterns",
    "attnscan.inputs.weights",
    "attnscan.results.tables",
}

COMMANDS = {name for name in SOURCES if name.startswith("attnscan.cli.commands.")}


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


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"attnscan.__main__", "attnscan.cli.app"}))
def test_nothing_imports_the_command_line(name: str) -> None:
    assert "attnscan.cli.app" not in _reached(name, lazy=True)


def test_scoring_does_not_know_the_patterns() -> None:
    assert "attnscan.scoring.patterns" not in _imports("attnscan.scoring.scorer", lazy=True)


@pytest.mark.parametrize("library", ["tokenizers", "transformers"])
def test_who_meets_the_libraries(library: str) -> None:
    users = {name for name in SOURCES if any(i.split(".")[0] == library for i in _imports(name, lazy=True))}
    running = {"attnscan.model.running", "attnscan.model.attention_function", "attnscan.model.output_tap"}
    assert users <= running | {"attnscan.model.loading", "attnscan.scan.scanner", "attnscan.model.task_heads"}


def test_rooms_do_not_import_in_circles() -> None:
    assert not [name for name in SOURCES if name in _reached(name, lazy=False)]


def test_the_command_line_imports_no_command_before_it_is_asked_for() -> None:
    assert {f"attnscan.cli.commands.{name}" for name in cli.COMMANDS} == COMMANDS
    light = {"attnscan.errors", "attnscan.cli.messages", "attnscan.safe_text"}
    assert _reached("attnscan.cli.app", lazy=True) <= {"attnscan", "attnscan.cli"} | light


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_commands_import_only_light_rooms_at_their_top(name: str) -> None:
    assert _reached(name, lazy=False) <= LIGHT | {
        "attnscan.cli.commands",
        "attnscan.cli.jobs",
        "attnscan.cli.pair_jobs",
        "attnscan.cli.study_jobs",
    }


def test_the_test_can_fail() -> None:
    """A control: the heavy rooms do reach torch, and commands reach the heavy rooms."""
    assert "torch" in _outside("attnscan.scoring.scorer")
    assert "attnscan.scan.scanner" in _reached("attnscan.cli.commands.classify", lazy=True)


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
        "from attnscan.cli.app import main\n"
        f"sys.argv = ['attnscan', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "print('loaded:', sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "loaded: []"
