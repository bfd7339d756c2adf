"""Do labels that are sure on some genres hold on others?

    python benchmarks/labels_elsewhere.py [MODEL] [FILE ...] [--pairs FILE] [--apart]

Heads are labelled by the pairs that attnscan ships, or those of `--pairs`, with a column `genre`.
First one genre after the other is left out, and labelled by itself; then each FILE of other pairs
is, with or without a column `genre`. A label that is sure counts as the same where the other texts
give it, too, sure or not. With `--apart`, sentences A and B are also read one by one, as the
bundled model was trained to read them. `predictive` is off.

Intervals are of Wilson, over heads.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import attnscan
from attnscan.results.scores import Labels
from attnscan.scan.state import ScanState

SHIPPED = Path(__file__).parents[1] / "examples" / "pairs.csv"
COLUMNS = ["sentence_a", "sentence_b"]
CONFIDENT = 1.96  # standard errors


def read(path: Path) -> pd.DataFrame:
    """A file's pairs; quotes of a TSV are text."""
    if path.suffix == ".tsv":
        return pd.read_csv(path, sep="\t", quoting=3, dtype=str, keep_default_na=False)
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def sum_pairs(pairs: pd.DataFrame, model: object) -> ScanState:
    """What some pairs add to the sums that labels are made of."""
    return attnscan.shard(pairs, model=model, predictive="off", on_long="truncate")


def label(states: Sequence[ScanState]) -> Labels:
    """What heads do by the pairs of some states together."""
    return attnscan.finish(sum(states[1:], states[0])).labels


def interval(same: int, of: int) -> str:
    """A share, and Wilson's interval of it."""
    if not of:
        return "-"
    share = same / of
    factor = CONFIDENT**2 / of
    middle = (share + factor / 2) / (1 + factor)
    reach = np.sqrt(share * (1 - share) * factor + factor**2 / 4) / (1 + factor)
    return f"{share:.3f} ({middle - reach:.3f} to {middle + reach:.3f})"


def compare(source: Labels, target: Labels) -> tuple[int, int, int]:
    """How many labels of the source are sure, how many of these the target has, and all heads."""
    sure = (source.label != "") & ~source.unsure
    return int(sure.sum()), int((sure & (source.label == target.label)).sum()), sure.size


def leave_out(states: dict[str, ScanState]) -> Iterator[str]:
    """A line for each genre that is left out, and one for all."""
    totals = np.zeros(3, int)
    for genre in states:
        others = [state for name, state in states.items() if name != genre]
        counts = compare(label(others), label([states[genre]]))
        totals += counts
        yield line(f"without {genre}, on it", *counts)
    yield line("one genre left out, all together", *totals)


def line(name: str, sure: int, same: int, heads: int) -> str:
    """A row of the table."""
    return f"| {name} | {sure / heads:.3f} | {sure} | {interval(same, sure)} |"


def lines(model: str, pairs: Path, others: Sequence[Path], *, apart: bool) -> Iterator[str]:
    """The table, row by row."""
    loaded = attnscan.load(model)
    rows = read(pairs)
    states = {
        str(genre): sum_pairs(of_genre, loaded)
        for genre, of_genre in rows.groupby("genre", sort=False)
    }
    yield "| labels by | sure, of all heads | sure | the same there |"
    yield "| --- | ---: | ---: | --- |"
    yield from leave_out(states)
    source = label(list(states.values()))
    for path in others:
        counts = compare(source, label([sum_pairs(read(path), loaded)]))
        yield line(f"{len(rows)} pairs of {len(states)} genres, on {path.name}", *counts)
    if apart:
        sentences = pd.concat(
            [rows[[column, "genre"]].set_axis(["text", "genre"], axis=1) for column in COLUMNS]
        )
        counts = compare(source, label([sum_pairs(sentences, loaded)]))
        yield line("pairs, on their sentences one by one", *counts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="bundled")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--pairs", type=Path, default=SHIPPED)
    parser.add_argument("--apart", action="store_true")
    options = parser.parse_args()
    print(f"{Path(options.model).name}, labelled by {options.pairs.name}", flush=True)
    for row in lines(options.model, options.pairs, options.files, apart=options.apart):
        print(row, flush=True)


if __name__ == "__main__":
    main()
