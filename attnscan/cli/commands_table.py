"""The commands, in the order and under the subjects of `attnscan --help`.

A command calls the library's function of its name. What that function takes is declared there, and
becomes the command's options; how its result is written stands in the command's row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnscan.results.schemas import Table

_EITHER = (
    "Give one input or --pairs; without either it reads the 336 pairs that ship with attnscan."
)
_PAIR = '"I went to the store." "At the store, I bought berries."'


@dataclass(frozen=True)
class Command:
    """A command of the line."""

    name: str
    """Also the name of the library's function that it calls."""
    subject: str
    """The heading of `attnscan --help` that it stands under."""
    summary: str
    """The first line of its help; a list of commands shows the first words."""
    examples: tuple[str, ...]
    """Commands that run, at the end of its help."""
    tables: tuple[str, ...] = ()
    """The declarations of the tables that it writes, as `MODULE:NAME`; none if it writes others."""
    view: str | None = None
    """The function that makes a screen of a result and a width, as `MODULE:FUNCTION`."""
    module: str | None = None
    """The module of `commands` whose function of its name writes the result, if no `view` does."""
    is_drawn: bool = False
    """Whether its result is also a picture: `-o FILE.svg`."""
    other_formats: tuple[str, ...] = ()
    """What `--format` takes beside the formats of tables."""

    @property
    def has_table(self) -> bool:
        """Whether its result is a table, with the options that say where and how it is written."""
        return bool(self.tables)


COMMANDS = (
    Command(
        name="classify",
        subject="What heads do",
        summary="What every head does on one sentence or pair.",
        tables=("results.heads:CLASSIFY_TABLE",),
        module="what_heads_do",
        examples=(
            f"attnscan classify {_PAIR}",
            'attnscan classify "The cat sat." --all --csv',
        ),
    ),
    Command(
        name="heads",
        subject="What heads do",
        summary=(
            "What every head does over many pairs. "
            "Without --pairs it reads the 336 that ship with attnscan."
        ),
        tables=("results.heads:HEADS_TABLE", "results.heads:RANKING_TABLE"),
        module="what_heads_do",
        examples=("attnscan heads", "attnscan heads --pattern delimiter --top 3"),
    ),
    Command(
        name="profile",
        subject="What heads do",
        summary=f"Where the attention of every head goes, in full. {_EITHER}",
        tables=("results.heads:PROFILE_TABLE",),
        module="what_heads_do",
        examples=('attnscan profile "The cat sat on the mat." --heads 0-2',),
    ),
    Command(
        name="predictive",
        subject="What heads do",
        summary="Which words of one input help to predict which.",
        tables=("results.predictions:DEPENDENCIES_TABLE",),
        view="head_weights:dependencies_view",
        examples=('attnscan predictive "The cat sat on the mat."',),
    ),
    Command(
        name="head",
        subject="One head",
        summary=f"Everything about one head or several. {_EITHER}",
        tables=("results.card:CARDS_TABLE",),
        view="card:cards_view",
        examples=('attnscan head 0-2 "The cat sat on the mat."',),
    ),
    Command(
        name="show",
        subject="One head",
        summary="The weights of one head, or of several, on one input.",
        tables=("results.heads:SHOW_TABLE",),
        module="one_head",
        other_formats=("pharaoh",),
        examples=(
            'attnscan show 0-2 "The cat sat on the mat."',
            'attnscan show 0-2 "The cat sat on the mat." --token mat --top 3',
        ),
    ),
    Command(
        name="explain",
        subject="One head",
        summary=f"How heads make their patterns. {_EITHER}",
        tables=("results.explanation:EXPLANATION_TABLE", "results.explanation:TOKEN_TABLE"),
        view="explanation:explanation_view",
        examples=('attnscan explain 0-2 "The cat sat on the mat." --token mat',),
    ),
    Command(
        name="ablate",
        subject="Studies",
        summary=(
            "Switch heads off, and measure what the model loses, "
            "beside random heads of the same layers."
        ),
        tables=("results.ablation:ABLATION_TABLE",),
        view="ablation:ablation_view",
        is_drawn=True,
        examples=("attnscan ablate --heads 0-2,1-8",),
    ),
    Command(
        name="similar",
        subject="Studies",
        summary=(
            "Find heads that attend alike: the nearest of each, groups and, "
            "with -o FILE.svg, a map of all."
        ),
        tables=("results.comparison:SIMILARITY_TABLE",),
        module="studies",
        is_drawn=True,
        examples=("attnscan similar --heads 0-2",),
    ),
    Command(
        name="compare",
        subject="Studies",
        summary="Compare two models' heads on the same pairs.",
        tables=("results.comparison:COMPARISON_TABLE",),
        module="studies",
        is_drawn=True,
        examples=("attnscan compare bundled bundled --top 3",),
    ),
    Command(
        name="syntax",
        subject="Studies",
        summary=(
            "Compare every head with the trees of a treebank, or with links of your own. "
            "Gains are over the best fixed rule."
        ),
        tables=("results.syntax:SYNTAX_TABLE",),
        module="studies",
        is_drawn=True,
        examples=("attnscan syntax --treebank trees.conllu",),
    ),
    Command(
        name="trace",
        subject="Studies",
        summary=(
            "When heads come to do what they do: the checkpoints of a training run, "
            "in the order of their steps."
        ),
        tables=("results.trace:TRACE_TABLE",),
        view="trace:trace_view",
        is_drawn=True,
        examples=("attnscan trace bundled --pairs random",),
    ),
    Command(
        name="plot",
        subject="Pictures and pages",
        summary=f"Draw what heads do, for a paper or a slide. {_EITHER}",
        module="pictures_and_pages",
        examples=(f"attnscan plot {_PAIR} -o map.svg",),
    ),
    Command(
        name="report",
        subject="Pictures and pages",
        summary=f"Write one offline page to look at every head. {_EITHER}",
        module="pictures_and_pages",
        examples=(f"attnscan report {_PAIR} -o page.html",),
    ),
    Command(
        name="serve",
        subject="Pictures and pages",
        summary=(
            "Serve a page that answers as you type. It runs on this machine alone. Ctrl-C ends it."
        ),
        module="pictures_and_pages",
        examples=("attnscan serve --open",),
    ),
    Command(
        name="pairs",
        subject="About",
        summary="How files of pairs are read, before they are scored. No model is needed.",
        tables=("api.pairs_as_read:PAIRS_TABLE",),
        module="about",
        examples=("attnscan pairs pairs.csv", "attnscan pairs pairs.csv --model bundled"),
    ),
    Command(
        name="patterns",
        subject="About",
        summary="The patterns, and what each counts. No model is needed.",
        tables=("api.about:PATTERNS_TABLE",),
        module="about",
        examples=("attnscan patterns", "attnscan patterns identical"),
    ),
    Command(
        name="models",
        subject="About",
        summary=(
            "The models that can run now. Given a checkpoint, it shows what can be scored in it."
        ),
        tables=("model.sources:MODELS_TABLE", "results.card:CHECKPOINT_TABLE"),
        module="about",
        examples=("attnscan models", "attnscan models bundled"),
    ),
)
COMMAND_NAMES = tuple(command.name for command in COMMANDS)
SUBJECTS = tuple(dict.fromkeys(command.subject for command in COMMANDS))


def command_named(name: str) -> Command:
    """The command of a name that is there."""
    return next(command for command in COMMANDS if command.name == name)


def declared_tables() -> Iterator[Table]:
    """The tables that commands write; each module is imported when its table's turn has come."""
    for command in COMMANDS:
        for declaration in command.tables:
            module, name = declaration.split(":")
            yield getattr(import_module(f"attnscan.{module}"), name)
