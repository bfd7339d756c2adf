"""Makes the pictures of the README and of `attnscan plot`'s page from the program itself, into docs/pictures/.

    python tests/support/pictures.py

`test_pictures.py` holds the two together.
"""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

from one_run import classify_and_keep
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from attnscan.inputs.pairs import Pair
from attnscan.scan.options import ScanOptions
from attnscan.views.pictures.look import PictureFile
from attnscan.views.pictures.picture import picture
from attnscan.views.terminal.classification import classification_view

DIRECTORY = Path(__file__).parents[2] / "docs" / "pictures"
A, B = "I went to the store.", "At the store, I bought fresh strawberries."
_WIDTH = 80
# Rich's own frame asks a server for its font: this one takes what the reader's machine has.
_FRAME = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "font-family: Fira Code, monospace", "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace"
)


def pictures() -> dict[str, bytes]:
    """Every picture by its file's name."""
    result, attention = classify_and_keep(Pair(A, B), ScanOptions(model="bundled"))
    result, profile = replace(result, attention=attention), result.profile
    assert profile is not None
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(classification_view(result, _WIDTH), markup=False, highlight=False)
    terminal = console.export_svg(title=f'attnscan classify "{A}" "{B}"', code_format=_FRAME, unique_id="attnscan")
    return {
        "terminal.svg": terminal.encode(),
        "map.svg": picture(result),
        "scores.svg": picture(result, "scores", PictureFile(width=6.5)),
        "layers.svg": picture(result, "layers", PictureFile(width=6.5)),
        "head.svg": picture(result, "head", heads=[(1, 8)]),
        "lines.svg": picture(result, "head", PictureFile(width=5), heads=[(1, 8), (0, 2)], lines=True),
        "profile.svg": picture(profile, "profile", PictureFile(width=6.5)),
        "distance.svg": picture(profile, "distance", heads=[(1, 8), (0, 2)]),
    }


if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, content in pictures().items():
        (DIRECTORY / name).write_bytes(content)
