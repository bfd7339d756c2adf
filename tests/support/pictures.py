"""Makes the pictures of the gallery and the README from the program itself, into docs/pictures/.

    PYTHONPATH=tests python -m support.pictures [TREEBANK.conllu] [RUN]

The treebank of the pictures of `syntax` does not ship, nor does the run of those of `trace`, which
`examples/when_heads_appear.py` makes: they are made only where the file or the directory is named.
`test_docs.py` holds the two together.
"""

import io
import re
import sys
from dataclasses import replace
from itertools import islice
from typing import get_args

import torch
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text
from support.command_line import A, B
from support.readme import README, ROOT, output_of
from transformers import AutoModel, AutoTokenizer

import attnscan
from attnscan.cli.commands.pictures_and_pages import PlotKind
from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.inputs.read import shipped_pairs
from attnscan.model.sources import choose
from attnscan.views.pictures.picture import picture

DIRECTORY = ROOT / "docs" / "pictures"
# Rich's own frame asks a server for its font: this one takes what the reader's machine has.
_FRAME = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "font-family: Fira Code, monospace",
    "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace",
)


def of_command(command: str) -> list[str]:
    """The files of a command's pictures in the gallery, its screen first."""
    drawn = {
        "plot": [*(f"{kind}.svg" for kind in get_args(PlotKind)), "lines.svg"],
        "report": ["page.png"],
        "serve": ["serve.png"],
    } | {
        name: [f"screen-{name}.svg", f"{name}.svg"]
        for name in ("ablate", "similar", "compare", "syntax", "trace")
    }
    return drawn.get(command, [f"screen-{command}.svg"])


PAGES = {command: ROOT / "docs" / "commands" / f"{command}.md" for command in COMMAND_NAMES}
PAGES["heads"] = README
SCREENS = [
    command
    for command in COMMAND_NAMES
    if command not in ("syntax", "trace") and f"screen-{command}.svg" in of_command(command)
]
"""Commands whose screens are made of what ships."""


def screen(command: str) -> dict[str, bytes]:
    """The first screen on a command's page, in colour; that of `heads` is the README's."""
    typed = re.findall(r"<!-- \$ (.*?) -->", PAGES[command].read_text(encoding="utf-8"))
    shown = typed[0] if typed else f"attnscan {command} next-word"
    return {f"screen-{command}.svg": _screen(shown)}


def _screen(typed: str) -> bytes:
    console = Console(
        record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(output_of(typed, color=True)), soft_wrap=True)
    return console.export_svg(title=typed, code_format=_FRAME, unique_id="attnscan").encode()


def studies() -> dict[str, bytes]:
    """Pictures of studies, of a few pairs: the second model has lost the queries of head 1-8."""
    pairs = [record.pair.texts for record in islice(shipped_pairs(), 8)]
    where = choose("bundled").location
    model = AutoModel.from_pretrained(where)
    tokenizer = AutoTokenizer.from_pretrained(where)
    query = model.encoder.layer[1].attention.self.query
    size = model.config.hidden_size // 12
    with torch.no_grad():
        query.weight[8 * size : 9 * size] = 0
        query.bias[8 * size : 9 * size] = 0
    bundled = {"model": "bundled", "device": "cpu"}
    compared = attnscan.compare("bundled", model, pairs, tokenizer_b=tokenizer)
    return {
        "ablate.svg": picture(attnscan.ablate(pairs, each=True, draws=4, **bundled)),
        "similar.svg": picture(attnscan.similar(pairs, **bundled)),
        "compare.svg": picture(compared, width=6.5),
    }


def pictures() -> dict[str, bytes]:
    """Every picture of one input by its file's name."""
    result = attnscan.classify(A, B, model="bundled")
    attention = result.kept_attention()
    result = replace(result, attention=attention)
    return {
        "map.svg": picture(result),
        "scores.svg": picture(result, "scores", width=6.5),
        "layers.svg": picture(result, "layers", width=6.5),
        "profile.svg": picture(result, "profile", width=6.5),
        "head.svg": picture(result, "head", heads=[(1, 8)]),
        "lines.svg": picture(result, "head", width=5, heads=[(1, 8), (0, 2)], lines=True),
    }


def traced(run: str) -> dict[str, bytes]:
    """Pictures of a run's checkpoints, on the texts that lie beside them."""
    pairs = f"{run}/texts.txt"
    return {
        "screen-trace.svg": _screen(f"attnscan trace {run} --pairs {pairs}"),
        "trace.svg": picture(attnscan.trace(run, pairs=pairs)),
    }


if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    drawn = pictures() | studies()
    for command in SCREENS:
        drawn |= screen(command)
    for path in sys.argv[1:]:
        if path.endswith(".conllu"):
            drawn["screen-syntax.svg"] = _screen(f"attnscan syntax --treebank {path}")
            drawn["syntax.svg"] = picture(attnscan.syntax(path, model="bundled"))
        else:
            drawn |= traced(path)
    for name, content in drawn.items():
        (DIRECTORY / name).write_bytes(content)
