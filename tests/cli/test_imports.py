"""What a command does not import."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BUNDLED = ("--model", "bundled")
WEIGHTS = ("--weights", "w.npz")
IN_TURN: list[list[tuple[set[str], tuple[str, ...]]]] = [
    [
        (
            {"torch", "transformers"},
            ("heads", "--pairs", "pairs.csv", "--columns", "c,d", *BUNDLED),
        ),
        ({"torch", "transformers", "pandas", "scipy"}, ("models",)),
        ({"torch", "transformers"}, ("similar", "--pairs", "w.npz", *BUNDLED)),
        ({"torch", "transformers"}, ("classify", "--weights", "pairs.csv")),
        ({"torch", "transformers", "matplotlib"}, ("models", "--csv")),
    ],
    [
        ({"transformers", "pandas", "scipy", "matplotlib"}, ("show", "0-1", *WEIGHTS)),
        ({"transformers", "pandas", "scipy"}, ("plot", *WEIGHTS, "-o", "map.svg")),
        ({"transformers", "pandas", "matplotlib"}, ("classify", *WEIGHTS)),
        ({"transformers", "pandas", "matplotlib"}, ("profile", *WEIGHTS)),
        ({"transformers", "matplotlib"}, ("report", *WEIGHTS, "-o", "page.html")),
        ({"matplotlib"}, ("classify", "a cat", *BUNDLED)),
    ],
]
"""What must not be imported, by which command, one after the other in one process; those that fail,
fail because of their files. What is drawn with is forgotten after each."""
SCRIPT = """
import contextlib, gc, json, sys
from attnscan.cli.app import main
found = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["attnscan", *arguments]
    with contextlib.suppress(SystemExit):
        main()
    found.append([[*sys.modules], gc.get_freeze_count(), gc.isenabled()])
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        del sys.modules[name]
with open("found.json", "w") as file:
    json.dump(found, file)
"""


@pytest.mark.long
@pytest.mark.parametrize("commands", IN_TURN, ids=["no torch", "torch"])
def test_commands_import_no_more_than_they_need(
    tmp_path: Path, commands: list[tuple[set[str], tuple[str, ...]]]
) -> None:
    (tmp_path / "pairs.csv").write_text("sentence_a,sentence_b\na cat,a dog\nthe cat sat,it sat\n")
    tokens = np.array(["[CLS]", "the", "cat", "sat", "[SEP]"])
    segments = np.zeros(5, int)
    np.savez(
        tmp_path / "w.npz", attention=np.full((1, 2, 5, 5), 0.2), tokens=tokens, segments=segments
    )
    script = [sys.executable, "-c", SCRIPT, json.dumps([arguments for _, arguments in commands])]
    subprocess.run(script, cwd=tmp_path, capture_output=True, check=False)
    found = json.loads((tmp_path / "found.json").read_text())
    for (unneeded, arguments), (modules, *_) in zip(commands, found, strict=True):
        assert set(modules) & unneeded == set(), arguments
    if commands is IN_TURN[1]:
        # Controls; and that what was imported is searched no more, while what comes after it is
        _, (of_plot, *_), *_, (modules, frozen, enabled) = found
        assert "matplotlib" in of_plot
        assert {"torch", "transformers"} <= set(modules)
        assert frozen > 100_000
        assert enabled
