"""Where attnscan is run: what the shell has opened, a home that is none; and every script in
examples/ as it stands.
"""

import bisect
import importlib.util
import os
import runpy
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ONE_MACHINE = "next-word     1      1     8 L1H8  0.826   0.027         0.821"
SAYS = {
    "code_links.py": ["functions and classes, ", "assigned dep->head", "same word before"],
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
    "resting.py": ["| layer | looked at", "| all | 0.351 | 0.003 | 0.080 | 0.001 |"],
    "saved_weights.py": ["next-word", "delimiter"],
    "when_heads_appear.py": ["a head gives more than half of its attention to induction from step"],
    "saved_weights.sh": ["D delimiter", "The 3 strongest of 64 weights"],
}
"""What a script prints, among other things."""
TRIED_ELSEWHERE = {"article_claims.py", "compare.py"}
"""The first needs models that are not here, and has its own test; the screen of the second is a
picture of the docs, which `test_docs.py` compares with what it prints.
"""
ARGUMENTS = {"code_links.py": [bisect.__file__, shlex.__file__, textwrap.__file__]}
"""Of a script that reads much more when it is asked for nothing."""
NEEDS = {
    "on_dask.py": "dask",
    "on_spark.py": "pyspark",
}  # Spark needs Java: it is not among what the tests install


def _run(*command: str | Path, where: Path, stdin: Path | None = None, **environment: str) -> str:
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {
        **os.environ,
        "PATH": tools,
        "ATTNSCAN_MODEL": "bundled",
        "PYTHONPATH": str(ROOT),
        **environment,
    }
    with Path(stdin or os.devnull).open("rb") as file:
        done = subprocess.run(
            command, cwd=where, env=env, stdin=file, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tried() -> None:
    scripts = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    assert scripts - TRIED_ELSEWHERE == set(SAYS)
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert not [name for name in SAYS if f"examples/{name}" not in pages]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}, which is not installed")
    program = sys.executable if name.endswith(".py") else "sh"
    said = _run(program, EXAMPLES / name, *ARGUMENTS.get(name, ()), where=tmp_path)
    assert not [line for line in SAYS[name] if line not in said], said
    if name == "notebook.sh":
        shown = (tmp_path / "run.ipynb").read_text(encoding="utf-8")
        assert '"execute_result"' in shown and '"display_data"' not in shown, (
            "a result shows itself once"
        )
    elif name == "saved_weights.sh":
        assert "I went" not in said and all(
            (tmp_path / made).is_file() for made in ("weights.npz", "page.html")
        )


def test_links_of_code_are_of_files_that_python_has() -> None:
    script = runpy.run_path(str(EXAMPLES / "code_links.py"))
    assert len(script["sources"]()) == len(script["MODULES"].split()) == 23


@pytest.mark.long
def test_pairs_behind_a_redirection_are_read_by_any_name(tmp_path: Path) -> None:
    (pairs := tmp_path / "pairs.tsv").write_text(
        "sentence_a\tsentence_b\nthe cat sat\ta cat ran\nhe ran\ta dog ran\n"
    )
    options = ["attnscan", "heads", "-p", "next-word", "--csv", "--pairs"]
    expected = _run(*options, "-", where=tmp_path, stdin=pairs)
    found = _run(*options, "/dev/stdin", where=tmp_path, stdin=pairs)
    assert expected.startswith("model,") and found == expected


@pytest.mark.long
def test_a_picture_is_drawn_without_a_home(tmp_path: Path) -> None:
    nowhere = {"HOME": os.devnull, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "MPLCONFIGDIR": ""}
    _run(
        "attnscan",
        "plot",
        "the cat sat",
        "--predictive",
        "off",
        "-o",
        "map.svg",
        where=tmp_path,
        **nowhere,
    )
    assert (tmp_path / "map.svg").stat().st_size > 1000
