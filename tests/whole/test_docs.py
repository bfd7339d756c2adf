"""The README, docs and docstrings show what the program prints, and every command, error and
picture is in them.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import transformers
from support.docstring_examples import check_examples, modules_with_examples
from support.drawn_pictures import texts
from support.families import NOT_CARRIED, REFUSED, TAPPED, UNTAPPED
from support.links import written
from support.pictures import DIRECTORY, SCREENS, of_command, pictures, screen, studies
from support.pictures import PAGES as PAGES_OF
from support.readme import PAGES, README, updated
from support.remembered import remember_results
from support.tokenizers_of_kinds import wordpiece
from typer.testing import CliRunner

import attnscan
from attnscan import errors
from attnscan.cli.app import app
from attnscan.cli.commands.pictures_and_pages import PlotKind
from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.errors import AttnscanError, OptionError
from attnscan.inputs.read import read_linked, shipped_pairs
from attnscan.inputs.records import KNOWN_COLUMNS

TEXT = README.read_text(encoding="utf-8")
DOCS = README.parent / "docs"
README_HEADS = pytest.mark.xdist_group("heads")  # its ranking is one, in colours and without
RESULTS: dict[str, Any] = {}
RUNS_A_MODEL = re.compile(r"<!-- \$ attnscan (?!patterns|models)(?!.*--help).* -->\n```text")


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    if page == README:
        return [pytest.mark.long, README_HEADS]
    return [pytest.mark.long] if RUNS_A_MODEL.search(page.read_text(encoding="utf-8")) else []


@pytest.fixture
def once_for_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen and a page show the same result."""
    remember_results(monkeypatch, RESULTS)


@pytest.mark.usefixtures("once_for_all_pages")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=_marks(page)) for page in PAGES],
    ids=lambda page: page.name,
)
def test_output_in_pages_is_real(page: Path) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    text = page.read_text(encoding="utf-8")
    assert updated(text) == text


def test_every_room_is_in_the_tour() -> None:
    rooms = {
        path.name
        for path in Path(attnscan.__file__).parent.iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }
    assert rooms <= {*(DOCS / "code.md").read_text(encoding="utf-8").replace("/", "").split()}


ASKED = TEXT.partition("Asked elsewhere:")[2].partition("\n\nAll commands")[0]
ANSWERS = re.findall(r"`attnscan ((?:ablate|report|show) .+?)`", ASKED)


@pytest.mark.long
@pytest.mark.parametrize("answer", ANSWERS)
def test_what_answers_a_question_of_the_readme_runs(answer: str, place: Path) -> None:
    long_text = "The keys to the old cabinet are on the table. " * 13  # beyond the window
    arguments = [
        long_text if argument == "$(cat long.txt)" else argument for argument in shlex.split(answer)
    ]
    if arguments[0] == "ablate":  # over a few pairs in place of all
        (place / "pairs.csv").write_text(
            "sentence_a,sentence_b\nthe cat sat,a dog ran\nhe ran,they saw him run\n"
        )
        arguments += ["--pairs", "pairs.csv", "--draws", "2"]
    elif long_text in arguments:  # to hide each of its words tells nothing more
        arguments += ["--predictive", "off"]
    done = CliRunner(env={"ATTNSCAN_MODEL": "bundled"}).invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout or (place / "page.html").is_file()


def test_four_questions_are_answered() -> None:
    assert [line[:4] for line in ASKED.splitlines() if line.startswith("- ")] == ["- **"] * 4
    assert len(ANSWERS) == 4


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_every_command_has_a_page_with_all_of_its_options(command: str) -> None:
    """In a table that is made from the command itself, to which `test_output_in_pages_is_real`
    holds the page.
    """
    assert f"(docs/commands/{command}.md)" in TEXT
    page = (DOCS / "commands" / f"{command}.md").read_text(encoding="utf-8")
    assert f"<!-- options of {command} -->\n| option" in page and "(options.md" in page


def test_every_public_name_is_in_the_docs() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert not [
        name
        for name in attnscan.__all__
        if name[0] != "_" and not re.search(rf"[`. ]{name}[`\n]", page)
    ]


def test_every_attribute_in_the_docs_has_a_meaning() -> None:
    items = re.findall(
        r"^- `\w+[:(].*$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(items) > 10 and not [item for item in items if not re.match(r"- `.+`: \S", item)]


def test_what_the_readme_links_and_tests_that_pages_name_are_there() -> None:
    """`make docs` checks the menu, and the links of docs/."""
    named = []
    for page in PAGES:
        named += re.findall(r"`(tests/[\w/]+(?:\.py)?)`", page.read_text("utf-8"))
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", TEXT) + re.findall(r'src="([^"]+)"', TEXT)
    assert named and len(links) > 35
    assert [name for name in named + links if not (README.parent / name).exists()] == []
    for name, anchor in re.findall(r"\]\(([^)#:]+)#([^)]+)\)", TEXT):
        headings = re.findall(r"^#+ (.+)$", (README.parent / name).read_text("utf-8"), re.MULTILINE)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_counts_in_prose_are_those_of_the_program() -> None:
    pairs = f"the {len(list(shipped_pairs()))} sentence pairs that ship with attnscan"
    assert pairs in TEXT and pairs in (DOCS / "index.md").read_text(encoding="utf-8")
    carried = len(TAPPED) + len(UNTAPPED) - len(NOT_CARRIED)
    assert f"In the {carried} families that\nshow it" in (DOCS / "carried.md").read_text(
        encoding="utf-8"
    )


COREFERENCE = """# global.Entity = eid-etype-head-other
# newdoc id = d1
# text = Anna lost her keys.
1\tAnna\t_\tPROPN\t_\t_\t2\tnsubj\t_\tEntity=(e1-person-1-)
2\tlost\t_\tVERB\t_\t_\t0\troot\t_\t_
3\ther\t_\tPRON\t_\t_\t4\tdet\t_\tEntity=(e2-object-2-(e1-person-1-)
4\tkeys\t_\tNOUN\t_\t_\t2\tobj\t_\tEntity=e2)|SpaceAfter=No
5\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

# text = The woman found them
1\tThe\t_\tDET\t_\t_\t2\tdet\t_\tEntity=(e1-person-2-
2\twoman\t_\tNOUN\t_\t_\t3\tnsubj\t_\tEntity=e1)
3\tfound\t_\tVERB\t_\t_\t0\troot\t_\t_
3.1\tx\t_\t_\t_\t_\t_\t_\t_\tEntity=(e2-object-1-)
4\tthem\t_\tPRON\t_\t_\t3\tobj\t_\tEntity=(e2-object-1-)

# newdoc id = d2
# text = She
1\tShe\t_\tPRON\t_\t_\t0\troot\t_\tEntity=(e1-person-1-)

"""


def test_the_recipe_of_coreference_links_mentions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "coref.conllu").write_text(COREFERENCE, encoding="utf-8")
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (recipe,) = [block for block in blocks if "coref" in block]
    monkeypatch.setattr(attnscan, "syntax", lambda links: list(links))
    names: dict[str, Any] = {}
    exec(recipe, names)
    first, second = names["result"]
    assert first["words"] == ["Anna", "lost", "her", "keys", ".", "The", "woman", "found", "them"]
    assert first["links"] == [["coref", 2, 0], ["coref", 6, 2], ["coref", 8, 3]]
    assert second["links"] == [] and second["document"] == 1
    written(place / "coref.jsonl", names["result"])
    assert [record.pair.a for record in read_linked(["coref.jsonl"])][1] == "She"


def test_the_names_of_columns_are_all_told_in_their_order() -> None:
    section = (
        (DOCS / "pairs.md")
        .read_text(encoding="utf-8")
        .partition("## Columns")[2]
        .partition("\n\n`--columns")[0]
    )
    quoted = re.findall(r"`([^`]+)`", section)
    lists = [names.casefold().split(",") for names in quoted if names != "--columns"]
    columns = [tuple(map(str.strip, names)) for names in lists]
    assert columns == list(KNOWN_COLUMNS)


GALLERY = (DOCS / "gallery.md").read_text(encoding="utf-8")
MADE = {path.name: path.read_bytes() for path in sorted(DIRECTORY.glob("*.svg"))}


@pytest.mark.long
@pytest.mark.parametrize("made", [pictures, studies])
def test_pictures_say_what_the_program_says(made: Callable[[], dict[str, bytes]]) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    for name, picture in made().items():
        assert texts(picture) == texts(MADE[name]), name


@pytest.mark.long
@pytest.mark.usefixtures("once_for_all_pages")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[README_HEADS] if PAGES_OF[command] == README else [])
        for command in SCREENS
    ],
)
def test_a_screen_says_what_the_program_says(command: str) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    ((name, picture),) = screen(command).items()
    assert texts(picture) == texts(MADE[name])


def test_the_gallery_shows_every_command_kind_and_picture() -> None:
    commands = set().union(*map(of_command, COMMAND_NAMES))
    for name in (*MADE, *commands):
        assert f"](pictures/{name})" in GALLERY and (DIRECTORY / name).is_file()
    assert all(
        re.search(rf"\]\(pictures/{kind}\.(svg|png)\)", GALLERY) for kind in get_args(PlotKind)
    )


def test_the_readme_shows_a_screen_and_a_map() -> None:
    assert {"screen-classify.svg", "map.svg"} <= set(
        re.findall(r'src="docs/pictures/([^"]+)"', TEXT)
    )


@pytest.mark.parametrize("name", MADE)
def test_pictures_are_small_and_self_contained(name: str) -> None:
    picture = MADE[name].decode()
    assert len(picture) < 400_000  # a shape for each head and class
    assert not re.search(r"@font-face|<script|<image|@import|url\((?!#)|href=\"(?!#)", picture)


PAGE = (DOCS / "errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CLASSES = {
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, AttnscanError)
}
LINE = AttnscanError.line
_EXAMPLE = re.compile(r"```text\n\$ attnscan (.*)\n(.*)\n```\n\n(\S.*)", re.DOTALL)


@pytest.fixture
def scene(place: Path) -> Path:
    """What the examples find around them."""
    (place / "long.txt").write_text("cat " * 600)
    (place / "notes.txt").write_text("not a state")
    return place


def test_every_error_is_there_and_no_other() -> None:
    assert set(SECTIONS) == CLASSES == set(re.findall(r"(\w+Error)\b", str(errors.__doc__)))


def test_the_examples_of_wrong_usage_are_real() -> None:
    section = PAGE.split("## Wrong usage")[1].split("\n## ")[0]
    examples = re.findall(r"^\$ attnscan (.*)\n(.*)$", section, re.MULTILINE)
    assert len(examples) >= 4
    for line, said in examples:
        done = CliRunner().invoke(app, shlex.split(line))
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{said}\n")


def test_the_example_in_python_is_real() -> None:
    match = re.search(
        r"```text\n>>> (.*)\nattnscan.errors.OptionError: (.*)\n```\n\n\S", SECTIONS["OptionError"]
    )
    assert match is not None
    with pytest.raises(OptionError) as raised:
        eval(match[1], {"attnscan": attnscan})
    assert str(raised.value) == match[2]


@pytest.mark.parametrize("name", sorted(CLASSES - {"AttnscanError", "OptionError"}))
def test_an_example_is_real_and_a_remedy_follows(
    name: str, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    match = _EXAMPLE.search(SECTIONS[name])
    assert match is not None, "an example, and behind it what to do"
    if "fnet" in match[1]:
        settings, _ = REFUSED["fnet"]
        config = transformers.FNetConfig(**{**settings, "vocab_size": 80})
        transformers.FNetModel(config).save_pretrained(scene / "fnet")
        wordpiece().save_pretrained(scene / "fnet")
    if name == "MemoryFullError":  # a stand-in for a small GPU
        monkeypatch.setattr(transformers.BertModel, "forward", _no_room)
    raised: list[str] = []

    def line(error: AttnscanError) -> str:
        raised.append(type(error).__name__)
        return str(LINE.fget(error))  # type: ignore[misc]

    monkeypatch.setattr(AttnscanError, "line", property(line))
    result = CliRunner(env={"ATTNSCAN_MODEL": "bundled"}).invoke(app, shlex.split(match[1]))
    assert (result.exit_code, result.stderr.replace(str(scene), "/tmp")) == (1, f"{match[2]}\n")
    assert raised[-1] == name


def _no_room(_self: object, input_ids: object = None, **_: object) -> None:  # noqa: ARG001
    raise torch.OutOfMemoryError("CUDA out of memory")


ROOMS_THAT_RUN_THEIR_OWN = ("attnscan.results.", "attnscan.scoring.")


@pytest.mark.parametrize(
    "module",
    [name for name in modules_with_examples() if not name.startswith(ROOMS_THAT_RUN_THEIR_OWN)],
)
def test_examples_in_docstrings_are_real(module: str) -> None:
    check_examples(module)
