"""Encoder-decoders from texts to tables: plain loops, a translator of known links, and what is refused."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rectangles
import reference
import torch
import translator
from command_line import run
from numpy.testing import assert_allclose
from pandas import read_csv
from pandas.testing import assert_frame_equal
from reference import Written
from tokenizers_of_kinds import ending
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from translator import TRANSLATOR
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app

pytestmark = pytest.mark.usefixtures("quiet")
PIECES = [
    ("the cat sat on the mat .", "the dog sat too", "0-0 1-1 2-2 3-3 5-3"),
    ("a cat ran", "dogs and mats", "0-0 2-1"),
    ("strawberries it", "it", "0-0 1-0"),
]


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random T5, with a tokenizer that cuts words into pieces."""
    return translator.random(tmp_path_factory.mktemp("random"), ending())


def _cross(model: Path, pairs: list[tuple[str, str, str]], **options: Any) -> attnscan.HeadScores:
    texts, links = [pair[:2] for pair in pairs], [pair[2] for pair in pairs]
    return attnscan.heads(texts, model=model, attention="cross", alignments=links, related=False, **options)


@pytest.mark.parametrize("query", ["predicts", "reads"])
@pytest.mark.parametrize("which", ["translator", "random"])
def test_scores_across_are_those_of_plain_loops(which: str, query: str, random: Path) -> None:
    model, pairs = (TRANSLATOR, translator.pairs(10)) if which == "translator" else (random, PIECES)
    expected = rectangles.scores(model, pairs, query)
    result = _cross(model, pairs, query=query)
    assert result.scores.patterns == rectangles.PATTERNS
    table = result.scores.every_key
    for (pattern, layer, head), (score, chance, n) in expected.items():
        place = (layer, head, result.scores.patterns.index(pattern))
        assert table.n[place] == n
        assert_allclose([table.score[place], table.chance[place]], [score, chance], atol=1e-6, err_msg=pattern)
    assert len(expected) == table.score.size


def test_a_pairs_sums_do_not_hang_on_the_pairs_beside_it(random: Path) -> None:
    together = _cross(random, PIECES, by="carried").scores.every_key
    alone = [_cross(random, [pair], by="carried").scores.every_key for pair in PIECES]
    total = sum(np.nan_to_num(own.score) * own.n for own in alone)
    assert_allclose(np.nan_to_num(together.score) * together.n, total, atol=1e-6)


def test_the_decoders_own_attention_is_causal_and_by_what_it_reads(random: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(random)
    written, weights = [], []
    for source, target, _ in PIECES:
        weights.append(torch.cat(translator.eager(random, source, target).decoder_attentions).double().numpy())
        tokens = [token.strip("▁") for token in ["<pad>", *tokenizer.tokenize(target)]]  # </s> is not read
        written.append(Written(tokens, [-1, *[0] * (len(tokens) - 1)]))
    options = {"model": random, "attention": "decoder", "related": False, "predictive": "off"}
    scores = attnscan.heads([pair[:2] for pair in PIECES], **options).scores
    assert [head.name for head in scores.grid][:2] == ["d0-0", "d0-1"] and scores.grid.shape == (2, 4)
    for head in scores.grid:
        own = [each[head.place] for each in weights]
        visible = [np.tril(np.ones_like(matrix)) > 0 for matrix in own]
        for pattern, numbers in reference.scores(written, own, visible=visible).items():
            place = (*head.place, scores.patterns.index(pattern))
            ours = [getattr(scores.every_key, name)[place] for name in ("score", "chance", "se", "n", "pairs")]
            assert_allclose(ours, numbers[:5], atol=1e-5, err_msg=f"{pattern} of {head.name}")


class TestGroundTruth:
    """The toy language reverses the order of words, so that all right links are known."""

    def test_the_aligned_head_is_there_and_no_neighbour_of_it(self) -> None:
        result = _cross(TRANSLATOR, translator.pairs(40))
        best = result.scores.grid[result.order("aligned")[0]]
        table, names = result.scores.every_key, result.scores.patterns
        assert best.name.startswith("c") and table.score[(*best.place, names.index("aligned"))] > 0.9
        assert set(result.among_words.ravel()) == {"aligned"}
        for other in ("before-aligned", "after-aligned", "same-place"):
            assert np.nanmax(table.above_chance[..., names.index(other)]) < 0.1

    def test_planted_decoder_heads_are_found_and_no_other(self, tmp_path: Path) -> None:
        """A bias for the word before, which T5's layers share, in one head of each layer."""
        model = translator.untrained()
        with torch.no_grad():
            model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight[1, 2] = 30
        planted = translator.save(model, tmp_path / "planted")
        result = attnscan.heads([pair[:2] for pair in translator.pairs(24)], model=planted, attention="decoder")
        assert ((result.among_words == "previous-word") == [[False, False, True, False]] * 2).all()
        table = result.scores.every_key
        assert table.score[:, 2, result.scores.patterns.index("previous-word")].min() > 0.95


def test_the_model_writes_a_target_that_is_missing() -> None:
    source, target, _ = translator.pairs(1)[0]
    result = attnscan.classify(source, model=TRANSLATOR, attention="cross")
    assert result.units == (*source.split(), "</s>", *target.split(), "</s>")
    short = attnscan.classify(source, model=TRANSLATOR, attention="cross", max_target_tokens=2)
    assert short.units == (*source.split(), "</s>", *target.split()[:2], "</s>")


def test_merged_words_look_at_merged_words(random: Path) -> None:
    """From a word the mean of its pieces' rows, to a word the sum."""
    tokens, words = (
        attnscan.classify(*PIECES[1][:2], model=random, attention="cross", unit=unit) for unit in ("token", "word")
    )
    assert tokens.kept_attention().weights.shape[-1] == len(tokens.units) > len(words.units)
    assert [unit.strip("▁") for unit in words.units] == f"{PIECES[1][0]} </s> {PIECES[1][1]} </s>".split()
    assert (np.asarray(words.scores.every_key.n) <= len(PIECES[1][1].split())).all()


class TestCommands:
    """`heads` and `classify` with the options of encoder-decoders."""

    @pytest.mark.parametrize(("heads", "kind"), [("c1-0", "cross"), ("d1-3", "decoder"), ("e0-2", None), ("0-2", None)])
    def test_a_letter_says_which_attention_is_read(self, heads: str, kind: str | None) -> None:
        arguments = ["bado fela", "ALEF ODAB", "--model", str(TRANSLATOR), "--csv"]
        asked = [] if kind is None else ["--attention", kind]
        assert run("show", heads, *arguments).stdout == run("show", heads.lstrip("edc"), *asked, *arguments).stdout

    def test_many_pairs_with_links(self, tmp_path: Path) -> None:
        pairs, links = translator.write(tmp_path, 6)
        options = ["--pairs", pairs, "--alignments", links, "--model", str(TRANSLATOR), "--attention", "cross"]
        screen = run("heads", *options).stdout
        assert "A the aligned source words" in screen and "c1-1" in screen
        top = run("heads", *options, "-p", "A", "--csv").stdout
        assert {row["pattern"] for row in csv.DictReader(StringIO(top))} == {"aligned"}

    @pytest.mark.parametrize(
        ("arguments", "code", "line"),
        [
            (["classify", "a", "b", "--query", "reads"], 2, "--query is for cross attention"),
            (["heads", "--alignments", "LINKS"], 2, "--alignments is for cross attention"),
            (["heads", "--attention", "all", "--per-pair", "x.parquet"], 2, "--state and --per-pair are"),
            (["classify", "a", "b", "--attention", "cross", "-p", "aligned"], 2, "aligned is told by gold alignments"),
            (["classify", "a", "b", "--attention", "cross", "-p", "next-word"], 2, "there is no pattern 'next-word'"),
            (["show", "c1-0,0-2", "a", "b"], 1, "c1-0 is of cross attention and 0-2 is of encoder attention"),
            (["show", "d1-0", "a", "b", "--attention", "cross"], 1, "d1-0 is of decoder attention, and cross"),
            (["show", "c1-0", "a", "b", "--attention", "all"], 2, "--attention"),
            (["show", "0-0", "a", "b", "--max-target-tokens", "3"], 2, "--max-target-tokens is for --attention"),
        ],
    )
    def test_what_has_no_meaning_is_one_line(
        self, arguments: list[str], code: int, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "LINKS").write_text("0-0\n")
        result = CliRunner().invoke(app, [*arguments, "--model", str(TRANSLATOR)])
        assert result.exit_code == code and line in result.stderr and len(result.stderr.splitlines()) == 1


def _bert() -> BertModel:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return BertModel(BertConfig(vocab_size=len(ending()), **sizes))


def _whisper() -> WhisperForConditionalGeneration:
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_mel_bins": 8, "max_source_positions": 8}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0}
    return WhisperForConditionalGeneration(WhisperConfig(vocab_size=len(ending()), **sizes, **heads))


@pytest.mark.parametrize(
    ("model", "attention", "said"),
    [
        (_bert, "decoder", "no decoder attention"),
        (_bert, "cross", "is no encoder-decoder"),
        (_whisper, "encoder", "the architecture WhisperEncoder of"),
        (_whisper, "all", "the architecture WhisperEncoder of"),
        (_whisper, "cross", "is no encoder-decoder that writes text"),
    ],
)
def test_a_model_without_that_attention_is_refused_by_name(
    model: Any, attention: str, said: str, tmp_path: Path
) -> None:
    translator.save(model(), tmp_path, ending())
    result = CliRunner().invoke(app, ["classify", "a", "b", "--model", str(tmp_path), "--attention", attention])
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1
    assert said in result.stderr and len(result.stderr.splitlines()) == 1


class TestStudies:
    """Heads alike, and two translators side by side."""

    @pytest.mark.parametrize("attention", ["decoder", "cross"])
    def test_divergences_are_those_of_plain_loops(self, attention: str, random: Path) -> None:
        given: dict[str, Any] = {"attention": attention, "queries": 999, "special": "in"}
        result = attnscan.similar([pair[:2] for pair in PIECES], model=random, **given)
        rows = []
        for source, target, _ in PIECES:
            weights = translator.eager(random, source, target)[f"{attention}_attentions"]
            words = slice(None, -1) if attention == "cross" else slice(1, None)  # which predict, or read, a word
            rows += [
                row.reshape(8, -1) for row in np.array(torch.cat(weights))[:, :, words].swapaxes(0, 2).swapaxes(1, 2)
            ]
        expected = np.zeros((8, 8))
        for one, other in np.ndindex(8, 8):
            for row in rows:
                mean = (row[one] + row[other]) / 2
                parts = (np.sum(p[p > 0] * np.log(p[p > 0] / mean[p > 0])) for p in (row[one], row[other]))
                expected[one, other] += sum(parts) / 2 / len(rows)
        assert_allclose(result.divergence, expected, atol=1e-6)
        assert result.queries == len(rows) and {head.name[0] for head in result.grid} == {attention[0]}

    def test_commands_name_heads_by_their_letters(self, tmp_path: Path) -> None:
        pairs, links = translator.write(tmp_path, 6)
        given = ["--pairs", pairs, "--model", str(TRANSLATOR)]
        profiled = run("profile", *given, "--heads", "c1-1", "--alignments", links).stdout
        assert "elsewhere" in profiled and "the rest of the source" in profiled
        assert "d0-1" in run("similar", *given, "--heads", "d0-1").stdout
        both = ["compare", str(TRANSLATOR), str(TRANSLATOR), *given[:2]]
        assert "c0-2" in run(*both, "--heads", "c0-2", "--pattern", "same-place").stdout


class TestAllKinds:
    """A mapping of kind to result in Python is the table that the command writes."""

    def test_heads_of_all_kinds(self, tmp_path: Path) -> None:
        pairs, links = translator.write(tmp_path, 6)
        result = attnscan.heads(pairs, model=TRANSLATOR, attention="all", alignments=links, query="reads")
        assert list(result) == ["encoder", "decoder", "cross"]
        given = ["--pairs", pairs, "--model", str(TRANSLATOR), "--attention", "all", "--query", "reads"]
        written = read_csv(StringIO(run("heads", *given, "--alignments", links, "--csv").stdout))
        assert_allclose(result.to_frame()["aligned"], written["aligned"], atol=1e-6)
        assert list(result.to_frame().columns) == list(written.columns)
        alone = attnscan.heads([source for source, *_ in translator.pairs(6)], model=TRANSLATOR)
        assert_allclose(result["encoder"].scores.every_key.score, alone.scores.every_key.score, atol=1e-9)
        asked = attnscan.heads(iter([pair[:2] for pair in translator.pairs(6)]), model=TRANSLATOR, attention="all")
        assert {ranking.signature.pairs_read for ranking in asked.values()} == {6}

    def test_one_input_of_each_kind(self) -> None:
        source, target, links = translator.pairs(1)[0]
        result = attnscan.classify(source, target, model=TRANSLATOR, attention="all", alignments=[links])
        assert result["encoder"].units == (*source.split(), "</s>")
        assert "aligned" in result["cross"].scores.patterns
        given = [source, target, "--model", str(TRANSLATOR), "--attention", "all"]
        written = read_csv(StringIO(run("classify", *given, "--csv").stdout))
        assert written["kind"].tolist() == ["encoder"] * 8 + ["decoder"] * 8 + ["cross"] * 8
        unlinked = attnscan.classify(source, target, model=TRANSLATOR, attention="all").to_frame()
        written = written.fillna({"label": "", "among_words": ""}).astype({"model": str})
        assert_frame_equal(unlinked.astype({"model": str}), written, check_dtype=False, atol=1e-6)
