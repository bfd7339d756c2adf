"""Measures what a user waits for and what scoring costs, and writes `RESULTS.md` and the times of
`docs/speed.md`: `make bench`, about fifteen minutes.

    python benchmarks/run.py [--runs 5]

Whole processes are held against the least that the answer could cost: an import of Typer and rich,
a command that prints a line, and a bare script that loads the bundled model and runs one forward
pass. What other scripts printed, below "By hand", stays.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import scan
import torch
from sidebyside import HEAD, cost, in_turn, machine, row, run_command

from attnscan.model.sources import bundled

RESULTS = Path(__file__).with_name("RESULTS.md")
SPEED = Path(__file__).parents[1] / "docs" / "speed.md"
TIMES = "<!-- times by make bench -->"
END = "<!-- these were the times -->"
ATTNSCAN = str(Path(sys.executable).with_name("attnscan"))
MEASURED = [
    "attnscan/cli",
    "attnscan/model",
    "attnscan/scan",
    "attnscan/scoring",
    "attnscan/inputs/data/pairs.csv",
    "benchmarks/run.py",
    "benchmarks/scan.py",
]
"""What times depend on: they are stale once any of it changes."""
BY_HAND = "\n## By hand\n"  # where what other scripts printed begins
A = "I went to the store."
B = "At the store, I bought fresh strawberries."
IMPORTS = [sys.executable, "-c", "import typer, rich"]
LINE = "import typer, rich.console; typer.run(lambda name='': rich.console.Console().print(name))"
BARE = f"""
import torch
from transformers import AutoModel, AutoTokenizer
place = {bundled().location!r}
tokenizer, model = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place)
with torch.no_grad():
    model(**tokenizer({A!r}, {B!r}, return_tensors="pt"))
"""
ONE_PAIR = ["classify", A, B, "--model", "bundled", "--predictive", "off"]
CASES = [
    ("`--help`", ["--help"], IMPORTS, "`import typer, rich`", 1.5),
    ("`--version`", ["--version"], IMPORTS, "`import typer, rich`", 1.5),
    (
        "`patterns`",
        ["patterns"],
        [sys.executable, "-c", LINE],
        "a command of Typer that prints a line",
        1.5,
    ),
    (
        "`classify` of one pair, predictive off",
        ONE_PAIR,
        [sys.executable, "-c", BARE],
        "a bare script",
        1.15,
    ),
]
PATTERNS = ["--pattern", "next-word", "--pattern", "previous-word"]
COMMANDS = [  # what docs/speed.md times: as it names them, what they read, and their words
    ("`classify A B`", "one pair", ["classify", A, B]),
    ("`explain 0-2 A B`", "one pair", ["explain", "0-2", A, B]),
    ("`report A B -o page.html`", "one pair", ["report", A, B, "-o", "page.html"]),
    ("`heads --predictive off`", "pairs", ["heads", "--predictive", "off"]),
    ("`heads`", "pairs", ["heads"]),
    ("`heads --pairs FILE`", "16 other pairs", ["heads", "--pairs", "others.csv"]),
    ("`profile`", "pairs", ["profile"]),
    ("`similar`", "pairs", ["similar"]),
    ("`ablate --pattern next-word --pattern previous-word`", "pairs", ["ablate", *PATTERNS]),
]


def startup(runs: int) -> Iterator[str]:
    """A line for each case."""
    for name, words, rival_command, rival, bound in CASES:
        rivals = {
            "ours": partial(run_command, [ATTNSCAN, *words]),
            "theirs": partial(run_command, rival_command),
        }
        yield row(name, rival, *in_turn(rivals, runs).values(), bound)


def command_times(runs: int) -> Iterator[str]:
    """A line for each command of docs/speed.md: the median of its processor time, on one core."""
    yield "| command | reads | processor time |\n| --- | --- | ---: |"
    with tempfile.TemporaryDirectory() as directory:
        others = "".join(
            f"We met {count} people.,There were {count} of them.\n" for count in range(16)
        )
        Path(directory, "others.csv").write_text(
            "sentence_a,sentence_b\n" + others, encoding="utf-8"
        )
        for name, reads, words in COMMANDS:
            command = [ATTNSCAN, *words, "--model", "bundled"]
            run = partial(run_command, command, directory, OMP_NUM_THREADS="1")
            seconds = statistics.median(cost(run).cpu for _ in range(runs))
            yield f"| {name} | {reads} | {seconds:.0f} s |"


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each rival, after one that is not"
    )
    args = parser.parse_args()
    where = f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    commit = subprocess.check_output(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=RESULTS.parent, text=True
    ).strip()
    times = [f"Processor time on one core, {where}.", "\n".join(command_times(args.runs))]
    rows = [*startup(args.runs), *scan.rows(args.runs)]
    blocks = [
        "# What attnscan costs",
        f"<!-- of {commit}: {' '.join(MEASURED)} -->",
        f"Written by `make bench`. {where}.",
        f"Median ratios of {args.runs} neighbouring runs, ours divided by the rival's: below 1 is"
        " faster. Scans are\nof every pattern but `predictive`, with a model of BERT base's shape"
        " and batches of 1,024 tokens.",
        "\n".join(["<!-- measured: speed -->", HEAD, *rows, "<!-- end of speed -->"]),
    ]
    _, begins, by_hand = RESULTS.read_text(encoding="utf-8").partition(BY_HAND)
    RESULTS.write_text("\n\n".join(blocks) + "\n" + begins + by_hand, encoding="utf-8")
    head, _, rest = SPEED.read_text(encoding="utf-8").partition(TIMES)
    SPEED.write_text(
        "\n\n".join([head + TIMES, *times, END + rest.partition(END)[2]]), encoding="utf-8"
    )
    print("\n".join(rows))


if __name__ == "__main__":
    main()
