"""How much heads rest: their delimiters' share by weight, and of what they carry, layer by layer.

    python examples/resting.py [FILE of pairs ...]

Over the pairs that attnscan ships if no file is named. A layer's share is that of all its heads
together; its error is clustered by pair, from the scores of every pair that `heads --per-pair`
writes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd


def of_layers(files: list[str], *options: str) -> pd.DataFrame:
    """The delimiters' share and its standard error. One row a layer, and one for all."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pairs.parquet"
        command = [
            sys.executable,
            "-m",
            "attnscan",
            "heads",
            "--pattern",
            "delimiter",
            "--per-pair",
            str(path),
        ]
        pairs = [f"--pairs={file}" for file in files]
        subprocess.run([*command, *pairs, *options], check=True, stdout=subprocess.DEVNULL)
        rows = pd.read_parquet(path, columns=["pair", "layer", "score", "n"])
    rows["weight"] = rows["score"] * rows["n"]
    layers = {str(layer): part for layer, part in rows.groupby("layer")} | {"all": rows}
    return pd.DataFrame(
        {name: share(part.groupby("pair")[["weight", "n"]].sum()) for name, part in layers.items()}
    ).T


def share(pairs: pd.DataFrame) -> pd.Series:
    """A ratio of sums over pairs, and its standard error, by what each pair is off from it."""
    ratio = pairs["weight"].sum() / pairs["n"].sum()
    off = pairs["weight"] - ratio * pairs["n"]
    few = len(pairs) / (len(pairs) - 1)
    return pd.Series({"share": ratio, "se": (few * (off**2).sum()) ** 0.5 / pairs["n"].sum()})


def main() -> None:
    """Print the table in Markdown."""
    by_weight = of_layers(sys.argv[1:])
    carried = of_layers(sys.argv[1:], "--by=carried")
    print("| layer | looked at | ± | carried | ± |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for layer in by_weight.index:
        numbers = [
            f"{by_weight.loc[layer, 'share']:.3f}",
            f"{by_weight.loc[layer, 'se']:.3f}",
            f"{carried.loc[layer, 'share']:.3f}",
            f"{carried.loc[layer, 'se']:.3f}",
        ]
        print(f"| {layer} | {' | '.join(numbers)} |")


if __name__ == "__main__":
    main()
