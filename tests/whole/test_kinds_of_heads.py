"""Certain heads of an encoder-decoder, by a model and by saved weights: what is shown is what eager
attention shows.
"""

import re
import shlex
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from support import translator
from support.command_line import run, table
from support.page_contents import Elements
from support.translator import TRANSLATOR
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import attnscan
from attnscan.errors import InputError, ModelError, OptionError, SelectionError

pytestmark = pytest.mark.usefixtures("quiet")
PAIR = "the cat sat on the mat .", "a dog and mats"
SOURCE, TARGET, LINKS = translator.pairs(1)[0]
MODEL = ("--model", str(TRANSLATOR))
LINKED: Any = {
    "pairs": [pair[:2] for pair in translator.pairs(12)],
    "alignments": [pair[2] for pair in translator.pairs(12)],
    "model": TRANSLATOR,
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The checkpoint of a family, made when it is asked for."""
    return cache(lambda family: translator.random_of(family, tmp_path_factory.mktemp(family)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of short names: what would be long is not suggested."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(TRANSLATOR)
    translator.write(tmp_path, 20)
    return tmp_path


def rows(*arguments: str) -> pd.DataFrame:
    return table(*arguments, keep_default_na=False)


class TestShow:
    """Weights of decoder and cross attention, as they are and cut to some tokens."""

    @pytest.mark.parametrize(
        "family", ["t5", "bart", "marian", "mvp"]
    )  # mvp is watched, the others call the tap
    def test_weights_are_those_of_eager_attention(self, family: str, checkpoints: Any) -> None:
        """Marian's checkpoint lacks its positions, which are computed, and only its class with a
        task head says so.
        """
        model = checkpoints(family)
        expected = translator.eager(model, *PAIR)
        assert expected.cross_attentions[0].shape[2:] != expected.decoder_attentions[0].shape[2:]
        for kind, letter in (("encoder", ""), ("decoder", "d"), ("cross", "c")):
            texts = PAIR if letter else PAIR[:1]
            ours = attnscan.show(f"layer:{letter}1", *texts, model=model)
            theirs = expected[f"{kind}_attentions"][1][0]
            assert [head.name for head in ours.heads] == [
                f"{letter}1-{n}" for n in range(len(theirs))
            ]
            for (_, matrix), eager in zip(ours.matrices(), theirs, strict=True):
                assert_allclose(matrix, eager, atol=1e-6)

    @pytest.mark.parametrize("query", ["predicts", "reads"])
    def test_rows_are_queries_of_the_target_and_keys_of_the_source(self, query: str) -> None:
        frame = rows("show", "c1-0,c1-1", SOURCE, TARGET, "--query", query, *MODEL)
        expected = translator.eager(TRANSLATOR, SOURCE, TARGET).cross_attentions[1][0, :2].numpy()
        assert_allclose(frame["weight"].to_numpy().reshape(expected.shape), expected, atol=1e-6)
        names = [*TARGET.split(), "</s>"] if query == "predicts" else ["<pad>", *TARGET.split()]
        first = frame[(frame["head"] == 0) & (frame["key"] == 1)]
        assert (
            first["query"].tolist() == list(range(len(names)))
            and first["query_token"].tolist() == names
        )
        assert set(zip(frame["key"], frame["key_token"], strict=True)) == set(
            enumerate([*SOURCE.split(), "</s>"])
        )
        assert set(frame["kind"]) == {"cross"} and "aligned" not in frame

    def test_what_heads_carry_is_in_proportion_to_their_values(self) -> None:
        ((_, matrix),) = attnscan.show(
            "c1-1", SOURCE, TARGET, model=TRANSLATOR, by="carried"
        ).matrices()
        model = AutoModelForSeq2SeqLM.from_pretrained(
            TRANSLATOR, attn_implementation="eager"
        ).eval()
        with torch.no_grad():
            states = model.encoder(
                **AutoTokenizer.from_pretrained(TRANSLATOR)(SOURCE, return_tensors="pt")
            )[0][0]
            across = model.decoder.block[1].layer[1].EncDecAttention
            neurons = slice(12, 24)  # head 1 of 12 neurons each
            taken = (states @ across.v.weight[neurons].T) @ across.o.weight[:, neurons].T
        weights = translator.eager(TRANSLATOR, SOURCE, TARGET).cross_attentions[1][0, 1]
        carried = (weights * taken.norm(dim=-1)).numpy()
        assert_allclose(matrix, carried / carried.sum(-1, keepdims=True), atol=1e-5)

    def test_one_token_of_the_target_and_a_window_of_the_source(self) -> None:
        whole = rows("show", "c0-2", SOURCE, TARGET, *MODEL)
        for token in ("1", TARGET.split()[1].lower()):
            part = rows("show", "c0-2", SOURCE, TARGET, "--token", token, "--window", "1-2", *MODEL)
            wanted = whole[(whole["query"] == 1) & whole["key"].isin([1, 2])].reset_index(drop=True)
            pd.testing.assert_frame_equal(part, wanted)
        with pytest.raises(
            SelectionError, match="the input has no token"
        ):  # it is one of the source's
            attnscan.show("c0-2", SOURCE, TARGET, token=SOURCE.split()[0], model=TRANSLATOR)
        with pytest.raises(OptionError, match="in cross attention the target asks"):
            attnscan.show("c1-1", SOURCE, TARGET, model=TRANSLATOR, to_sentence="A")

    def test_gold_links_are_marked(self, tmp_path: Path) -> None:
        (file := tmp_path / "links").write_text(LINKS)
        options = [SOURCE, TARGET, "--alignments", str(file), *MODEL]
        frame = rows("show", "c1-1", *options)
        linked = frame[frame["aligned"] == 1]
        assert {
            f"{key}-{query}" for key, query in zip(linked["key"], linked["query"], strict=True)
        } == {*LINKS.split()}
        screen = run("show", "c1-1", *options).stdout
        assert screen.count("█+") == len(LINKS.split()) and "+ behind gold links" in screen
        unlinked = run("show", "c1-1", SOURCE, TARGET, *MODEL).stdout
        assert "+" not in unlinked and "Queries are the target's words" in unlinked


class TestCard:
    """Everything about a head of a decoder or of cross attention."""

    def test_a_cross_heads_scores_are_those_of_a_ranking(self) -> None:
        card = attnscan.head("c1-1", **LINKED)["c1-1"]
        ranking = attnscan.heads(attention="cross", **LINKED)
        place = (1, 1, ranking.scores.patterns.index("aligned"))
        assert card.main_kind == "aligned" and card.patterns["aligned"]["rank"] == 1
        assert card.ranking.table.score[place] == ranking.table.score[place] > 0.9
        assert (card.row()["kind"], card.row()["among_words"]) == ("cross", "aligned")
        for example in card.examples:  # of the source, and behind it the target
            source, target = map(str.split, example.sentences)
            assert (
                example.units == (*source, "</s>", *target, "</s>")
                and example.key < len(source) < example.query
            )
            assert example.units[example.query] == example.units[example.key].upper()[::-1]

    def test_links_are_those_of_plain_loops(self) -> None:
        card = attnscan.head("c0-2", **LINKED, by="weight", special="in")["c0-2"]
        links: dict[tuple[str, str], list[float]] = {}
        for source, target in LINKED["pairs"]:
            weights = translator.eager(TRANSLATOR, source, target).cross_attentions[0][0, 2].numpy()
            for (query, word), (key, other) in product(
                enumerate(target.split()), enumerate(source.split())
            ):
                links.setdefault((word, other), []).append(weights[query, key])
        shown = card.links[card.links["key"] != "</s>"]
        assert len(shown)
        for link in shown.itertuples():
            values = links[link.query, link.key]
            assert (link.share, link.count) == (
                pytest.approx(np.mean(values), abs=1e-5),
                len(values),
            )


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("attention", "letter"),
    [("cross", "c"), ("decoder", "d"), pytest.param("all", "", marks=pytest.mark.long)],
)
def test_what_screens_of_a_kind_suggest_runs_as_it_is_pasted(attention: str, letter: str) -> None:
    linked = [] if attention == "decoder" else ["--alignments", "links"]
    options = ["--attention", attention, "--model", "model"]
    for typed in (["heads", "--pairs", "p.tsv", *linked], ["classify", SOURCE, TARGET]):
        command = shlex.split(run(*typed, *options).stdout.partition("\nNext: attnscan ")[2])
        assert command[0] == "head" and command[1].startswith(letter)
        assert ("--alignments" in command) == (typed[0] == "heads" and command[1].startswith("c"))
        assert command[1] in run(*command).stdout


class TestAblate:
    """Heads of decoders and of cross attention switched off, measured by what the model says of the
    target.
    """

    @staticmethod
    def _loss(
        checkpoint: Path, pairs: list[tuple[str, str]], off: tuple[int, int] | None = None
    ) -> float:
        """The loss by eager attention, with the output projection of a cross head put at zero."""
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        model = AutoModelForSeq2SeqLM.from_pretrained(
            checkpoint, attn_implementation="eager"
        ).eval()
        if off is not None:
            layer, head = off
            decoder = model.get_decoder()
            if hasattr(decoder, "block"):
                output = decoder.block[layer].layer[1].EncDecAttention.o
            else:
                output = decoder.layers[layer].encoder_attn.out_proj
            heads = translator.eager(checkpoint, *pairs[0]).cross_attentions[layer].shape[1]
            output.weight.data.unflatten(1, (heads, -1))[:, head] = 0
        losses = []
        for source, target in pairs:
            labels = tokenizer(text_target=target, return_tensors="pt").input_ids
            with torch.no_grad():
                logits = model(**tokenizer(source, return_tensors="pt"), labels=labels).logits[0]
            losses.append(
                torch.nn.functional.cross_entropy(logits, labels[0], reduction="none")[:-1]
            )  # but the end
        return float(torch.cat(losses).mean())

    @pytest.mark.parametrize("which", ["translator", "bart", "marian"])
    def test_the_loss_is_that_of_a_model_whose_head_puts_out_nothing(
        self, which: str, checkpoints: Any
    ) -> None:
        model = TRANSLATOR
        pairs = [pair[:2] for pair in translator.pairs(8)]
        if which != "translator":
            model = checkpoints(which)
            pairs = [PAIR, ("a cat ran to the store", "the dog sat too"), ("mats", "a mat .")]
        result = attnscan.ablate(pairs, heads="c1-1,c0-0", each=True, model=model)
        for effect, place in zip(result.effects, [(1, 1), (0, 0)], strict=True):
            assert effect.quantity.name == "target" and effect.set.heads[0].place == place
            assert effect.intact == pytest.approx(self._loss(model, pairs), abs=1e-5)
            assert effect.ablated == pytest.approx(self._loss(model, pairs, place), abs=1e-5)
            assert effect.ablated != pytest.approx(effect.intact, abs=1e-6)

    @pytest.mark.usefixtures("place")
    def test_the_heads_that_align_cost_most(self) -> None:
        options = ["--pairs", "p.tsv", "--model", "model"]
        screen = run("ablate", "--heads", "layer:c1", "--each", *options).stdout
        assert "target" in screen and max(map(len, screen.splitlines())) <= 80
        frame = rows("ablate", "--heads", "layer:c1", *options)
        assert (
            set(frame["measure"]) == {"target"} and (frame["ablated"] > 10 * frame["intact"]).all()
        )
        aligned = rows(
            "ablate", "--attention", "cross", "--alignments", "links", "-p", "A", *options
        )
        assert aligned["heads"].iloc[0] > 0 and (aligned["ablated"] > aligned["intact"]).all()
        card = run("head", "c1-1", "--ablate", *options).stdout
        assert "Without it: target (nats a token)" in " ".join(card.split())


class TestExplain:
    """How heads of decoders and cross attention make their patterns."""

    def test_logits_of_keys_make_the_weights_of_eager_attention(self) -> None:
        frame = rows("explain", "c1-1", SOURCE, TARGET, "--token", TARGET.split()[1], *MODEL)
        expected = translator.eager(TRANSLATOR, SOURCE, TARGET).cross_attentions[1][0, 1, 1].numpy()
        assert_allclose(frame["weight"], expected, atol=1e-6)
        neurons = frame[[f"neuron_{number}" for number in range(12)]]
        assert_allclose(neurons.sum(axis=1), frame["logit"], atol=1e-4)
        assert_allclose(np.exp(frame["logit"]) / np.exp(frame["logit"]).sum(), expected, atol=1e-5)
        assert set(frame["kind"]) == {"cross"} and frame["key_token"].tolist() == [
            *SOURCE.split(),
            "</s>",
        ]

    def test_effective_neurons_are_those_of_plain_loops(self) -> None:
        pairs = [
            *translator.pairs(6),
            translator.pairs(6)[0],
        ]  # two of one length are read in one block
        counted: list[float] = []
        for source, target, links in pairs:
            alone = attnscan.explain("c1-1", source, target, alignments=[links], model=TRANSLATOR)
            assert alone.attention is not None
            keys = len(source.split()) + 1
            of_pair = []
            for key, query in (map(int, link.split("-")) for link in links.split()):
                products = alone.attention.products("c1-1", keys + query)[:keys].astype(float)
                contrast = products[key] - np.delete(products, key, axis=0).mean(0)
                of_pair.append(np.abs(contrast).sum() ** 2 / (contrast**2).sum())
            assert alone["c1-1"]["effective_neurons"] == pytest.approx(np.mean(of_pair), rel=1e-4)
            counted += of_pair
        texts = [pair[:2] for pair in pairs]
        alignments = [pair[2] for pair in pairs]
        head = attnscan.explain("c1-1", pairs=texts, alignments=alignments, model=TRANSLATOR)[
            "c1-1"
        ]
        assert (head.pattern, head.n, head.pairs) == ("aligned", len(counted), len(pairs))
        assert head["effective_neurons"] == pytest.approx(np.mean(counted), rel=1e-4)
        assert np.isnan(head["sign_agreement"])

    def test_a_decoders_head_and_positions_where_the_model_has_them(self, checkpoints: Any) -> None:
        result = attnscan.explain(
            "c1-0,c1-1", pairs=[PAIR, ("a cat ran", "it sat")], model=checkpoints("bart")
        )
        for head in result.heads:
            assert not np.isnan(result[head]["positions_shuffled"]) and np.isnan(
                result[head]["segments_zeroed"]
            )
        explanation = attnscan.explain("d1-0", "bado fela gumi", "IMUG ALEF ODAB", model=TRANSLATOR)
        assert explanation.not_available["positions_shuffled"] == "the model takes no position ids"
        assert explanation.to_frame()["kind"].tolist() == ["decoder"]


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: attnscan.ablate([PAIR], heads="c1-1", measure=["cls"], model=TRANSLATOR),
        ModelError,
        "cls cannot be ",
    ),
    (
        lambda: attnscan.ablate([PAIR], heads="0-1", measure=["target"], model=TRANSLATOR),
        ModelError,
        "it is for dec",
    ),
    (
        lambda: attnscan.head("c1-1", *PAIR, treebank="x.conllu", model=TRANSLATOR),
        OptionError,
        "treebank is of an ",
    ),
    (
        lambda: attnscan.compare(*[TRANSLATOR] * 2, ["bado"], attention="cross"),
        InputError,
        "has no target, and each of",
    ),
    (
        lambda: attnscan.show("c1-0", *PAIR, model=attnscan.load(TRANSLATOR)),
        ModelError,
        "loaded without its decoder",
    ),
    (
        lambda: attnscan.classify(weights={}, attention="cross", alignments=["0-0"]),
        OptionError,
        "needs no model",
    ),
    (
        lambda: attnscan.explain("d1-0", *PAIR, pattern="predictive", model=TRANSLATOR),
        OptionError,
        "predictive is exp",
    ),
]


@pytest.mark.parametrize(("call", "error", "said"), REFUSED)
def test_what_a_kind_has_not_is_refused_in_a_line(
    call: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as refused:
        call()
    assert "\n" not in str(refused.value)


SAVED = ("the cat sat on the mat .", "the dog sat too")
READINGS = [
    ("encoder", "predicts"),
    ("decoder", "predicts"),
    ("cross", "predicts"),
    ("cross", "reads"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose decoder has another number of layers, and whose tokenizer cuts words into
    pieces.
    """
    return translator.random_of("t5", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def file(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `--save-weights` writes."""
    path = tmp_path_factory.mktemp("saved") / "kinds.npz"
    run(
        "classify",
        *SAVED,
        "--model",
        str(model),
        "--attention",
        "cross",
        "--save-weights",
        str(path),
        "--csv",
    )
    return path


@cache
def shown(model: Path) -> dict[str, Any]:
    """What a user of BertViz has: what transformers shows, layer by layer, and the tokens that were
    read.
    """
    tokenizer = AutoTokenizer.from_pretrained(model)
    output = translator.eager(model, *SAVED)
    kinds = {
        f"{kind}_attention": output[f"{kind}_attentions"]
        for kind in ("encoder", "decoder", "cross")
    }
    with_gradients = {}
    for name, layers in kinds.items():
        with_gradients[name] = tuple(layer.clone().requires_grad_() for layer in layers)
    source, target = map(tokenizer.tokenize, SAVED)
    return {
        **with_gradients,
        "encoder_tokens": [*source, "</s>"],
        "decoder_tokens": ["<pad>", *target],
    }


def _stacked(arrays: dict[str, Any]) -> dict[str, Any]:
    """Layers as one array, which a file can hold."""
    return {
        n: v if n.endswith("tokens") else torch.stack(v).detach().numpy() for n, v in arrays.items()
    }


def check_same(
    ours: attnscan.HeadScores, model: Path, kind: Any, query: Any, **options: Any
) -> None:
    """The scores of the model under the same names, labels by weight, units and attention with
    them.
    """
    arguments = {
        "attention": kind,
        "query": query,
        "related": False,
        "predictive": "off",
        **options,
    }
    theirs = attnscan.classify(*SAVED[: 1 if kind == "encoder" else 2], model=model, **arguments)
    assert ours.scores.grid == theirs.scores.grid and ours.scores.patterns == theirs.scores.patterns
    for name in ("score", "chance", "n"):
        pair = [getattr(result.scores.every_key, name) for result in (ours, theirs)]
        assert_allclose(*pair, atol=2e-6, err_msg=name)
    assert_array_equal(ours.labels.follows, theirs.labels.follows)
    assert_allclose(ours.shown_attention.weights, theirs.shown_attention.weights, atol=1e-6)


@pytest.mark.parametrize(("kind", "query"), READINGS)
@pytest.mark.parametrize("unit", ["token", "word"])
def test_scores_of_a_file_are_those_of_the_model(
    model: Path, file: Path, kind: Any, query: Any, unit: str
) -> None:
    check_same(
        attnscan.classify(weights=file, attention=kind, query=query, unit=unit),
        model,
        kind,
        query,
        unit=unit,
    )


@pytest.mark.parametrize(("kind", "query"), READINGS)
@pytest.mark.parametrize("held", ["tensors", "arrays", "file"])
def test_what_bertviz_takes_is_taken(
    model: Path, kind: Any, query: Any, held: str, tmp_path: Path
) -> None:
    weights: Any = shown(model)
    if held == "arrays":
        weights = {n: v if n.endswith("tokens") else v[:, 0] for n, v in _stacked(weights).items()}
    elif held == "file":
        np.savez(path := tmp_path / "bertviz.npz", **_stacked(weights))
        weights = path
    ours = attnscan.classify(weights=weights, attention=kind, query=query)
    check_same(ours, model, kind, query)
    if query == "predicts" and kind == "cross":
        assert (
            ours.units[-1] == "[?]" and ours.sentence[-1] == -1
        )  # nobody says what the last position predicts


def test_a_page_of_a_file_has_every_kind_that_is_asked_for(
    model: Path, file: Path, tmp_path: Path
) -> None:
    np.savez(theirs := tmp_path / "bertviz.npz", **_stacked(shown(model)))
    page = tmp_path / "page.html"
    for weights in (file, theirs):
        for attention, letters in (("all", ("", "d", "c")), ("cross", ("c",))):
            run("report", "--weights", str(weights), "--attention", attention, "-o", str(page))
            names = " ".join(Elements(page.read_text()).text)
            assert tuple(dict.fromkeys(re.findall(r"weights-([dc]?)\d+-\d+", names))) == letters


def test_heads_of_a_file_are_shown_and_drawn_by_their_letters(file: Path, tmp_path: Path) -> None:
    for head in ("c1-0", "d1-0"):
        assert head in run("show", head, "--weights", str(file)).stdout
    for title, options in {
        "Cross": ("--kind", "head", "--heads", "c1-0"),
        "of decoder": ("--attention", "decoder"),
    }.items():
        run("plot", "--weights", str(file), *options, "-o", str(path := tmp_path / "picture.svg"))
        assert f"{title} attention" in path.read_text(encoding="utf-8")
