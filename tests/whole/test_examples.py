"""Every script in examples/ runs as it stands, on the bundled model, and says what it promises."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ROOT = EXAMPLES.parent
ONE_MACHINE = "next-word     1      1     8 L1H8  0.824   0.034         0.817 0.003 0.817 0.830 2775    102"
SAYS = {
    "compare.py": ["N → e  1-8"],
    "notebook.sh": [],
    "on_dask.py": [ONE_MACHINE],
    "on_spark.py": [ONE_MACHINE],
    "own_pattern.py": ["subject-verb      3     1"],
    "pairs_of_a_program.py": [
        "left out: row 4: sentence B is missing",
        "scoring pairs: 11 of 12",
        "head 1-8 looks at the next word least in pair-5",
        "list: 11 pairs, the same labels: True",
        "generator: 11 pairs, the same labels: True",
    ],
    "resting.py": ["| layer | looked at", "| all | 0.385 | 0.007 | 0.095 | 0.003 |"],
    "saved_weights.py": ["next-word", "delimiter"],
    "saved_weights.sh": ["D delimiter", "The 3 strongest of 64 weights"],
}
"""What a script prints, among other things. `article_claims.py` needs models that are not here: it has its own test."""


NEEDS = {
    "on_dask.py": "dask",
    "on_spark.py": "pyspark",
}
"""What a script needs beside attnscan. Spark is large and needs Java, so it is not among what the tests install."""


def run(name: str, where: Path) -> str:
    """The standard output of an example, run elsewhere than where it lies."""
    program = [sys.executable] if name.endswith(".py") else ["sh"]
    tools = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "ATTNSCAN_MODEL": "bundled"}
    env["PYTHONPATH"] = str(ROOT)
    done = subprocess.run([*program, str(EXAMPLES / name)], cwd=where, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tried() -> None:
    scripts = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    assert scripts - {"article_claims.py"} == set(SAYS)
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert not [name for name in SAYS if f"examples/{name}" not in pages]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}, which is not installed")
    said = run(name, tmp_path)
    assert not [line for line in SAYS[name] if line not in said], said
    written = {path.name for path in tmp_path.iterdir()}
    if name == "notebook.sh":
        shown = (tmp_path / "run.ipynb").read_text(encoding="utf-8")
        assert '"output_type": "execute_result"' in shown
        assert '"output_type": "display_data"' not in shown, "a result shows itself once"
    elif name == "saved_weights.sh":
        assert "I went" not in said and {"weights.npz", "page.html"} <= written
