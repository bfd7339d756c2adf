"""What a user waits for: whole processes, attnscan and its rival in turn, and the ratio of each pair of runs.

    python benchmarks/startup.py [--runs 9] [--floors]

The rivals are the least that the same answer could cost: importing the two libraries that any command line of
this kind imports, and a bare script that loads the bundled model and runs one forward pass. The budgets are
the project's own.

A second table has each command's floor: the imports that it cannot do without, by themselves, and how much of the
command's processor time is left for attnscan.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from sidebyside import Row, in_turn, machine, process_cost, ratios, row, show

from attnscan.model.sources import bundled

A, B = "I went to the store.", "At the store, I bought fresh strawberries."
IMPORTS = [sys.executable, "-c", "import typer, rich"]
BARE = f"""
import torch
from transformers import AutoModel, AutoTokenizer
place = {bundled().location!r}
tokenizer, model = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place)
with torch.no_grad():
    model(**tokenizer({A!r}, {B!r}, return_tensors="pt"))
"""
ATTNSCAN = [str(Path(sys.executable).with_name("attnscan"))]
CASES = [
    ("`--help`", [*ATTNSCAN, "--help"], IMPORTS, "`import typer, rich`", 1.5),
    ("`--version`", [*ATTNSCAN, "--version"], IMPORTS, "`import typer, rich`", 1.5),
    ("`patterns`", [*ATTNSCAN, "patterns"], IMPORTS, "`import typer, rich`", 1.5),
    (
        "`classify` of one pair, predictive off",
        [*ATTNSCAN, "classify", A, B, "--model", "bundled", "--predictive", "off"],
        [sys.executable, "-c", BARE],
        "a bare script: load, one forward",
        1.15,
    ),
]
TORCH, MODEL_CLASSES = "import torch", "from transformers import PreTrainedModel"
FLOORS = {
    ("models",): "import typer, numpy, rich.console, huggingface_hub",
    ("heads", "--from", "every.parquet"): "import typer, numpy, rich.console, pyarrow.parquet, scipy.special",
    ("classify", "--weights", "weights.npz"): TORCH,
    ("show", "0-2", "--weights", "weights.npz"): TORCH,
    ("report", "--weights", "weights.npz", "-o", "page.html"): TORCH,
    ("plot", "--weights", "weights.npz", "-o", "map.svg"): TORCH,
    ("classify", A, B, "--model", "bundled", "--predictive", "off"): MODEL_CLASSES,
}
"""The least that must be imported, by commands."""


def rows(runs: int) -> list[Row]:
    """A line for each case."""
    found = []
    for name, ours, theirs, rival, bound in CASES:
        costs = in_turn({"ours": lambda c=ours: process_cost(c), "theirs": lambda c=theirs: process_cost(c)}, runs)
        found.append(row(name, rival, costs["ours"], costs["theirs"], bound))
    return found


def floors(runs: int, place: Path) -> list[str]:
    """A table of every command beside its floor; what the commands read is written into a directory."""
    model = ("--model", "bundled", "--predictive", "off")
    process_cost([*ATTNSCAN, "classify", A, B, *model, "--save-weights", str(place / "weights.npz")])
    process_cost([*ATTNSCAN, "heads", "-p", "next-word", *model, "--per-pair", str(place / "every.parquet")])
    files = ("weights.npz", "every.parquet", "page.html", "map.svg")
    ours = {
        command: [*ATTNSCAN, *(str(place / each) if each in files else each for each in command)] for command in FLOORS
    }
    bare = {code: [sys.executable, "-c", code] for code in dict.fromkeys(FLOORS.values())}
    costs = in_turn({name: lambda c=command: process_cost(c) for name, command in (ours | bare).items()}, runs)
    lines = [
        "| command | its floor | floor, CPU s | command, CPU s | ratio | ours |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for command, code in FLOORS.items():
        seconds = [statistics.median(cost.cpu for cost in costs[name]) for name in (code, command)]
        _, ratio = ratios(costs[command], costs[code])
        name = " ".join("A B" if word == A else word for word in command if word != B)
        lines.append(
            f"| `{name}` | `{code}` | {seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.2f} | {1 - 1 / ratio:.0%} |"
        )
    return lines


def main() -> None:
    """Print a line for each case, and each command's floor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--floors", action="store_true", help="print the second table alone")
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each, after one that is not")
    asked = parser.parse_args()
    print(machine())
    if not asked.floors:
        show(rows(asked.runs))
    with tempfile.TemporaryDirectory() as place:
        print("", *floors(asked.runs, Path(place)), sep="\n")


if __name__ == "__main__":
    main()
