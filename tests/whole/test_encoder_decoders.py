"""Encoder-decoders from texts to tables: plain loops, a translator of known links, many pairs, and
what is refused.
"""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from scipy.spatial.distance import jensenshannon
from support import reference_scores as reference
from support import translator
from support.command_line import run, table
from support.families import BART, tiny_writer
from support.reference_scores import Written, check_head
from support.tokenizers_of_kinds import ending
from support.translator import TRANSLATOR
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from typer.testing import CliRunner

import attnscan
from attnscan.api import many_pairs as ranking_runs
from attnscan.cli.app import app
from attnscan.errors import EngineError, InputError, TooLongError
from attnscan.scan import pair_scan
from attnscan.scan import state as states

pytestmark = pytest.mark.usefixtures("quiet")
PIECES = [
    ("the cat sat on the mat .", "the dog sat too", "0-0 1-1 2-2 3-3 5-3"),
    ("a cat ran", "dogs and mats", "0-0 2-1"),
    ("strawberries it", "it", "0-0 1-0"),
]


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random T5, with a tokenizer that cuts words into pieces."""
    return translator.random_of("t5", tmp_path_factory.mktemp("random"))


def _cross(model: Path, pairs: list[tuple[str, str, str]], **options: Any) -> attnscan.HeadScores:
    texts = [pair[:2] for pair in pairs]
    links = [pair[2] for pair in pairs]
    return attnscan.heads(
        texts, model=model, attention="cross", alignments=links, related=False, **options
    )


@pytest.mark.parametrize("query", ["predicts", "reads"])
@pytest.mark.parametrize("which", ["translator", "random"])
def test_scores_across_are_those_of_plain_loops(which: str, query: str, random: Path) -> None:
    model, pairs = (TRANSLATOR, translator.pairs(10)) if which == "translator" else (random, PIECES)
    expected = reference.scores_across(model, pairs, query)
    result = _cross(model, pairs, query=query)
    assert result.scores.patterns == reference.CROSS_PATTERNS
    table = result.scores.every_key
    for (pattern, layer, head), score in expected.items():
        place = (layer, head, result.scores.patterns.index(pattern))
        found = [table.score[place], table.chance[place], table.n[place]]
        assert_allclose(
            found, [score.mean(), score.mean("chance"), score.n], atol=1e-6, err_msg=pattern
        )
    assert len(expected) == table.score.size


def test_a_pairs_sums_do_not_hang_on_the_pairs_beside_it(random: Path) -> None:
    together = _cross(random, PIECES, by="carried").scores.every_key
    alone = [_cross(random, [pair], by="carried").scores.every_key for pair in PIECES]
    total = sum(np.nan_to_num(scores.score) * scores.n for scores in alone)
    assert_allclose(np.nan_to_num(together.score) * together.n, total, atol=1e-6)


def test_the_decoders_own_attention_is_causal_and_by_what_it_reads(random: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(random)
    written = []
    weights = []
    for source, target, _ in PIECES:
        weights.append(
            torch.cat(translator.eager(random, source, target).decoder_attentions).double().numpy()
        )
        tokens = [
            token.strip("▁") for token in ["<pad>", *tokenizer.tokenize(target)]
        ]  # </s> is not read
        written.append(Written(tokens, [-1, *[0] * (len(tokens) - 1)]))
    options = {"model": random, "attention": "decoder", "related": False, "predictive": "off"}
    scores = attnscan.heads([pair[:2] for pair in PIECES], **options).scores
    assert [head.name for head in scores.grid][:2] == ["d0-0", "d0-1"] and scores.grid.shape == (
        2,
        4,
    )
    for head in scores.grid:
        matrices = [each[head.place] for each in weights]
        check_head(
            scores,
            head,
            written,
            matrices,
            visible=[np.tril(np.ones_like(matrix)) > 0 for matrix in matrices],
        )


class TestGroundTruth:
    """The toy language reverses the order of words, so that all right links are known."""

    def test_the_aligned_head_is_there_and_no_neighbour_of_it(self) -> None:
        result = _cross(TRANSLATOR, translator.pairs(40))
        best = result.scores.grid[result.order("aligned")[0]]
        table = result.scores.every_key
        names = result.scores.patterns
        assert (
            best.name.startswith("c") and table.score[(*best.place, names.index("aligned"))] > 0.9
        )
        assert set(result.among_words.ravel()) == {"aligned"}
        for other in ("before-aligned", "after-aligned", "same-place"):
            assert np.nanmax(table.above_chance[..., names.index(other)]) < 0.1

    def test_planted_decoder_heads_are_found_and_no_other(self, tmp_path: Path) -> None:
        """A bias for the word before, which T5's layers share, in one head of each layer."""
        model = translator.untrained()
        with torch.no_grad():
            model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight[1, 2] = 30
        planted = translator.save(model, tmp_path / "planted")
        result = attnscan.heads(
            [pair[:2] for pair in translator.pairs(24)], model=planted, attention="decoder"
        )
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
    cross: Any = {"model": random, "attention": "cross"}
    tokens = attnscan.classify(*PIECES[1][:2], **cross, unit="token")
    words = attnscan.classify(*PIECES[1][:2], **cross, unit="word")
    assert tokens.kept_attention().weights.shape[-1] == len(tokens.units) > len(words.units)
    assert [
        unit.strip("▁") for unit in words.units
    ] == f"{PIECES[1][0]} </s> {PIECES[1][1]} </s>".split()
    assert (np.asarray(words.scores.every_key.n) <= len(PIECES[1][1].split())).all()


def _bert() -> BertModel:
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    return BertModel(BertConfig(vocab_size=len(ending()), **sizes))


def _whisper() -> WhisperForConditionalGeneration:
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "num_mel_bins": 8,
        "max_source_positions": 8,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0}
    return WhisperForConditionalGeneration(
        WhisperConfig(vocab_size=len(ending()), **sizes, **heads)
    )


REFUSED: list[tuple[Any, str, int, str]] = [
    (None, "heads --attention all --per-pair x.parquet", 2, "--state and --per-pair are"),
    (None, "classify a b --attention cross -p aligned", 2, "aligned needs gold alignments"),
    (None, "classify a b --attention cross -p next-word", 2, "there is no pattern 'next-word'"),
    (None, "show c1-0 a b --attention all", 2, "--attention"),
    (_bert, "classify a b --attention decoder", 1, "no decoder attention"),
    (_bert, "classify a b --attention cross", 1, "is no encoder-decoder"),
    (_whisper, "classify a b --attention encoder", 1, "the architecture WhisperEncoder of"),
    (_whisper, "classify a b --attention all", 1, "the architecture WhisperEncoder of"),
    (_whisper, "show c0-0 a b", 1, "leave out --attention and letters of heads, or name a model"),
    (partial(tiny_writer, "fsmt"), "classify a b", 1, "the architecture FSMTEncoder of"),
]


@pytest.mark.parametrize(
    ("make", "typed", "code", "said"), REFUSED, ids=[typed for _, typed, *_ in REFUSED]
)
def test_what_a_model_does_not_have_is_refused_in_a_line(
    make: Any, typed: str, code: int, said: str, tmp_path: Path
) -> None:
    """By the translator, or a model that is made."""
    model = TRANSLATOR if make is None else translator.save(make(), tmp_path, ending())
    result = CliRunner().invoke(app, [*typed.split(), "--model", str(model)])
    assert (result.exit_code, result.stderr.count("\n")) == (code, 1) and said in result.stderr


class TestStudies:
    """Heads alike, and two translators side by side."""

    @pytest.mark.parametrize("attention", ["decoder", "cross"])
    def test_divergences_are_those_of_plain_loops(self, attention: str, random: Path) -> None:
        options: dict[str, Any] = {"attention": attention, "queries": 999, "special": "in"}
        result = attnscan.similar([pair[:2] for pair in PIECES], model=random, **options)
        rows = []
        for source, target, _ in PIECES:
            layers = translator.eager(random, source, target)[f"{attention}_attentions"]
            words = (
                slice(None, -1) if attention == "cross" else slice(1, None)
            )  # which predict, or read, a word
            rows += torch.cat(layers)[:, :, words].flatten(0, 1).unbind(1)  # each of [head, key]
        expected = np.zeros((8, 8))
        for i, j in np.ndindex(8, 8):
            expected[i, j] = np.mean([jensenshannon(row[i], row[j]) ** 2 for row in rows])
        assert_allclose(result.divergence, expected, atol=1e-6)
        assert result.queries == len(rows) and {head.name[0] for head in result.grid} == {
            attention[0]
        }

    def test_commands_name_heads_by_their_letters(self, tmp_path: Path) -> None:
        pairs, links = translator.write(tmp_path, 6)
        options = ["--pairs", pairs, "--model", str(TRANSLATOR)]
        profiled = run("profile", *options, "--heads", "c1-1", "--alignments", links).stdout
        assert "elsewhere" in profiled and "the rest of the source" in profiled
        assert "d0-1" in run("similar", *options, "--heads", "d0-1").stdout
        both = ["compare", str(TRANSLATOR), str(TRANSLATOR), *options[:2]]
        assert "c0-2" in run(*both, "--heads", "c0-2", "--pattern", "same-place").stdout


class TestAllKinds:
    """A mapping of kind to result in Python is the table that the command writes."""

    def test_heads_of_all_kinds(self, tmp_path: Path) -> None:
        pairs, links = translator.write(tmp_path, 6)
        result = attnscan.heads(
            pairs, model=TRANSLATOR, attention="all", alignments=links, query="reads"
        )
        assert list(result) == ["encoder", "decoder", "cross"]
        options = [
            "--pairs",
            pairs,
            "--model",
            str(TRANSLATOR),
            "--attention",
            "all",
            "--query",
            "reads",
        ]
        written = table("heads", *options, "--alignments", links)
        assert_allclose(result.to_frame()["aligned"], written["aligned"], atol=1e-6)
        assert list(result.to_frame().columns) == list(written.columns)
        alone = attnscan.heads([source for source, *_ in translator.pairs(6)], model=TRANSLATOR)
        assert_allclose(
            result["encoder"].scores.every_key.score, alone.scores.every_key.score, atol=1e-9
        )
        rankings = attnscan.heads(
            iter([pair[:2] for pair in translator.pairs(6)]), model=TRANSLATOR, attention="all"
        )
        assert {ranking.signature.pairs_read for ranking in rankings.values()} == {6}

    def test_one_input_of_each_kind(self) -> None:
        source, target, links = translator.pairs(1)[0]
        result = attnscan.classify(
            source, target, model=TRANSLATOR, attention="all", alignments=[links]
        )
        assert result["encoder"].units == (*source.split(), "</s>")
        assert "aligned" in result["cross"].scores.patterns
        arguments = [source, target, "--model", str(TRANSLATOR), "--attention", "all"]
        written = table("classify", *arguments)
        assert written["kind"].tolist() == ["encoder"] * 8 + ["decoder"] * 8 + ["cross"] * 8
        unlinked = attnscan.classify(source, target, model=TRANSLATOR, attention="all").to_frame()
        written = written.fillna({"label": "", "among_words": ""}).astype({"model": str})
        assert_frame_equal(unlinked.astype({"model": str}), written, check_dtype=False, atol=1e-6)


PAIRS = translator.pairs(24)
TEXTS = [pair[:2] for pair in PAIRS]
LINKS = [links for *_, links in PAIRS]
KINDS = pytest.mark.parametrize("attention", ["decoder", "cross"])


class Killed(BaseException):
    """In place of a signal: nothing of the run goes on."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return translator.write(tmp_path, len(PAIRS))


def _options(attention: str, part: slice = slice(None)) -> dict[str, Any]:
    links = {"alignments": LINKS[part]} if attention == "cross" else {}
    return {"model": TRANSLATOR, "attention": attention, **links}


def _command(attention: str, files: tuple[str, str], *more: str) -> list[str]:
    links = ["--alignments", files[1]] if attention == "cross" else []
    return [
        "heads",
        "--pairs",
        files[0],
        "--model",
        str(TRANSLATOR),
        "--attention",
        attention,
        *links,
        *more,
    ]


@KINDS
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(
    attention: str, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(*_command(attention, files, "--csv")).stdout
    monkeypatch.setattr(pair_scan, "_TOKENS_IN_WINDOW", 60)
    monkeypatch.setattr(pair_scan, "_BATCHES_IN_WINDOW", (0, 16))
    monkeypatch.setattr(ranking_runs, "_SAVE_EVERY", -1.0)
    save = states.save_state
    seen = list[int]()

    def dying(path: Any, state: Any, scanner: Any) -> None:
        save(path, state, scanner)
        seen.append(state.seen.read)
        if len(seen) == 2:
            raise Killed

    monkeypatch.setattr(states, "save_state", dying)
    command = _command(attention, files, "--csv", "--state", str(tmp_path / "state"))
    with pytest.raises(Killed):
        run(*command)
    assert 0 < seen[-1] < len(PAIRS)
    assert run(*command).stdout == whole and seen[-1] == len(PAIRS)


@KINDS
def test_pairs_own_scores_say_the_kind(
    attention: str, files: tuple[str, str], tmp_path: Path
) -> None:
    name = "same-place" if attention == "cross" else "previous-word"
    run(
        *_command(
            attention,
            files,
            "--pattern",
            name,
            "--csv",
            "--per-pair",
            rows := str(tmp_path / "rows.parquet"),
        )
    )
    table = pd.read_parquet(rows)
    assert list(table.columns)[:6] == ["file", "pair", "kind", "layer", "head", "pattern"]
    assert set(table["kind"]) == {attention}


@KINDS
def test_shards_add_to_the_table_of_one_run(attention: str) -> None:
    cuts = [slice(0, 7), slice(7, 8), slice(8, None)]
    shards = [
        pickle.loads(pickle.dumps(attnscan.shard(TEXTS[cut], **_options(attention, cut))))
        for cut in cuts
    ]
    added = attnscan.finish(sum(shards[::-1]))
    expected = attnscan.heads(TEXTS, **_options(attention))
    pd.testing.assert_frame_equal(added.to_frame(), expected.to_frame(), rtol=1e-6)
    assert added.signature.input_hash == expected.signature.input_hash
    with pytest.raises(
        EngineError, match=r"parts of one scan differ: .*attention (decoder|cross) and encoder"
    ):
        _ = shards[0] + attnscan.shard(TEXTS[:1], model=TRANSLATOR)
    other = {"query": "reads"} if attention == "cross" else {"max_target_tokens": 9}
    with pytest.raises(
        EngineError, match=r"differ: (query predicts and reads|max_target_tokens 64 and 9)"
    ):
        _ = shards[0] + attnscan.shard(TEXTS[:1], **_options(attention, slice(1)), **other)


POSITIONS = 24
LONG = "the cat sat on the mat . " * 10


def _bart(directory: Path, writes: str | None = None) -> Path:
    """A random BART; one that `writes` a token writes no other."""
    torch.manual_seed(0)
    tokenizer = ending()
    ends = {"bos_token_id": 2, "decoder_start_token_id": 2, "eos_token_id": 3}
    sizes = BART | {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": POSITIONS,
        **ends,
    }
    model = BartForConditionalGeneration(BartConfig(**sizes, forced_eos_token_id=None))
    if writes is not None:
        model.final_logits_bias[:] = -1e4
        model.final_logits_bias[0, tokenizer.convert_tokens_to_ids(writes)] = 1e4
    return translator.save(model, directory, tokenizer)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"model": _bart(tmp_path_factory.mktemp("bart")), "attention": "cross", "related": False}


@pytest.mark.parametrize("pair", [(LONG, "the cat"), ("the cat", LONG), (LONG, LONG), (LONG,)])
def test_what_is_too_long_is_one_line_or_cut(
    pair: tuple[str, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(TooLongError, match=f"tokens long and the model reads at most {POSITIONS}"):
        attnscan.classify(*pair, **options)
    cut = attnscan.classify(*pair, on_long="truncate", **options)
    attention = cut.kept_attention()
    assert cut.signature.pairs_truncated == 1
    assert max(attention.source, len(attention.tokens) - attention.source) <= POSITIONS


def test_a_model_writes_no_more_than_it_reads(options: dict[str, Any], tmp_path: Path) -> None:
    model = _bart(tmp_path, writes="▁cat")
    result = attnscan.classify("the cat", max_target_tokens=500, **options | {"model": model})
    assert result.units[result.kept_attention().source :] == ("▁cat",) * (POSITIONS - 2) + ("</s>",)


def test_a_target_without_words_is_one_line(options: dict[str, Any], tmp_path: Path) -> None:
    silent = options | {"model": _bart(tmp_path, writes="</s>")}
    bad = list[Any]()
    with pytest.raises(
        InputError, match="writes no word as the target; give the target as sentence B"
    ):
        attnscan.classify("the cat", **silent)
    result = attnscan.heads([("the cat",), ("a cat", "a dog")], on_bad=bad.append, **silent)
    assert result.signature.pairs_skipped == 1 and "row 1: the model writes no word" in str(bad[0])
    with pytest.raises(InputError, match="sentence B is empty"):
        attnscan.classify("the cat", "", **options)


@pytest.mark.parametrize("attention", ["decoder", "cross"])
def test_a_special_token_that_is_typed_as_the_target_is_its_word(
    attention: Any, options: dict[str, Any]
) -> None:
    result = attnscan.classify("the cat", "</s>", **options | {"attention": attention})
    assert result.sentence.count(1) == 1 and result.scores.every_key.n.max() == 1


@pytest.mark.parametrize("family", ["mvp", "led", "fsmt"])
def test_families_that_do_not_call_the_tap_are_read_and_saved(family: str, tmp_path: Path) -> None:
    """LED's and FSMT's encoders cannot be read, and are left out of a file."""
    model = translator.save(tiny_writer(family), tmp_path, ending())
    options: Any = {"model": model, "attention": "cross", "related": False}
    theirs = attnscan.classify(
        "it t", "a", save_weights=(path := tmp_path / "kinds.npz"), **options
    )
    ours = attnscan.classify(weights=path, attention="cross")
    assert_allclose(ours.scores.every_key.score, theirs.scores.every_key.score, atol=1e-6)
