"""`attnscan models`: what can run, and what is said of checkpoints of every kind; and `attnscan
patterns`.
"""

import re
from pathlib import Path

from support.checkpoints_of_kinds import CASES, NO_DELIMITER, saved
from support.command_line import run, table

from attnscan.scoring.patterns import PATTERNS, SHIPPED


def test_models_lists_what_can_run() -> None:
    assert re.search(r"bundled +bert +6 × 12 +ready", run("models").stdout)
    models = table("models").set_index("model")
    assert models.loc["bundled", ["layers", "heads"]].tolist() == [6, 12]


def test_the_screen_says_what_cannot_be_scored(tmp_path: Path, shared: Path) -> None:
    lines = run(
        "models", str(saved(CASES["decoder without delimiters"], tmp_path))
    ).stdout.splitlines()
    assert "family         gpt2 (GPT2Model)" in lines
    assert "heads          3 × 4 = 12" in lines
    assert "template       A B" in lines
    assert "task heads     none trained" in lines
    assert "next-sentence  no: a gpt2 model has no next-sentence head" in lines
    assert f"D delimiter        no: {NO_DELIMITER}" in lines
    assert "P previous-word    yes" in lines
    assert "J induction        yes" in lines
    assert all(len(line) <= 80 for line in lines if "/" not in line)
    trained = run("models", str(shared / "models" / "minilm-l6-mlm")).stdout.splitlines()
    assert {
        "task heads     masked-LM, next-sentence",
        "masked-lm      yes",
        "next-sentence  yes",
    } <= set(trained)


def test_csv_is_a_row_for_each_fact_and_pattern() -> None:
    rows = dict(
        line.split(",", 1) for line in run("models", "bundled", "--csv").stdout.splitlines()
    )
    assert rows["key"] == "value"
    assert (rows["family"], rows["layers"], rows["heads"]) == ("bert", "6", "12")
    assert (rows["segment_ids"], rows["masked_lm_head"], rows["mask_token"]) == (
        "yes",
        "no",
        "[MASK]",
    )
    assert [rows[pattern.id] for pattern in PATTERNS] == ["yes"] * 7
    assert (rows["next_sentence_head"], rows["classifier_head"], rows["cls"]) == ("no", "no", "yes")
    assert rows["masked-lm"] == "no: the checkpoint has no trained masked-LM head"


def test_patterns_are_listed_on_a_page_and_in_rows() -> None:
    text = run("patterns").stdout
    assert re.findall(r"^[A-Z] ([a-z-]+): ", text, re.MULTILINE) == [
        pattern.id for pattern in SHIPPED
    ]
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("[CLS]   the   cat   sat") == 9
    rows = table("patterns")
    assert rows.columns.tolist() == ["letter", "pattern", "counts", "queries", "keys", "source"]
    identical = rows.set_index("letter").loc["I"]
    assert identical["pattern"] == "identical"
    assert identical["keys"] == "those words, and the word itself"
    assert len(rows) == len(SHIPPED)
