"""Commands about certain heads of an encoder-decoder: what they show is what eager attention shows."""

from __future__ import annotations

import io
import shlex
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tiny_translators
import torch
import translator
from command_line import run
from numpy.testing import assert_allclose

import attnscan
from attnscan.errors import ModelError, OptionError, SelectionError
from attnscan.results.explanation import evidence

pytestmark = pytest.mark.usefixtures("quiet")
TRANSLATOR = Path(__file__).parents[2] / "tests" / "data" / "translator"
PAIR = "the cat sat on the mat .", "a dog and mats"


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The checkpoint of a family, made when it is asked for."""

    @cache
    def of(family: str) -> Path:
        return tiny_translators.saved(family, tmp_path_factory.mktemp(family))

    return of


def rows(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run(*arguments, "--csv").stdout), keep_default_na=False)


def suggested(screen: str) -> list[str]:
    """The words of the command that a screen ends with."""
    return shlex.split(screen.partition("\nNext: attnscan ")[2])


class TestShow:
    """Weights of decoder and cross attention, as they are and cut to some tokens."""

    @pytest.mark.parametrize("family", tiny_translators.FAMILIES)
    def test_weights_are_those_of_eager_attention(self, family: str, checkpoints: Any) -> None:
        model = checkpoints(family)
        shown = tiny_translators.eager(model, *PAIR)
        assert shown.cross_attentions[0].shape[2:] != shown.decoder_attentions[0].shape[2:]
        for kind, expected in (("cross", shown.cross_attentions), ("decoder", shown.decoder_attentions)):
            weights = attnscan.show(f"layer:{kind[0]}1", *PAIR, model=model)
            assert [head.name for head in weights.heads] == [f"{kind[0]}1-{n}" for n in range(expected[1].shape[1])]
            for (_, matrix), own in zip(weights.matrices(), expected[1][0].numpy(), strict=True):
                assert_allclose(matrix, own, atol=1e-6)

    @pytest.mark.parametrize("family", tiny_translators.FAMILIES)
    def test_the_encoder_of_a_saved_checkpoint_is_read(self, family: str, checkpoints: Any) -> None:
        """Marian's checkpoint lacks its positions, which are computed, and only its class with a task head says so."""
        model = checkpoints(family)
        expected = tiny_translators.eager(model, *PAIR).encoder_attentions[1][0].numpy()
        weights = attnscan.show("layer:1", PAIR[0], model=model)
        for (_, matrix), own in zip(weights.matrices(), expected, strict=True):
            assert_allclose(matrix, own, atol=1e-6)

    @pytest.mark.parametrize("query", ["predicts", "reads"])
    def test_rows_are_queries_of_the_target_and_keys_of_the_source(self, query: str) -> None:
        source, target, _ = translator.pairs(1)[0]
        frame = rows("show", "c1-0,c1-1", source, target, "--query", query, "--model", str(TRANSLATOR))
        expected = tiny_translators.eager(TRANSLATOR, source, target).cross_attentions[1][0, :2].numpy()
        assert_allclose(frame["weight"].to_numpy().reshape(expected.shape), expected, atol=1e-6)
        names = [*target.split(), "</s>"] if query == "predicts" else ["<pad>", *target.split()]
        first = frame[(frame["head"] == 0) & (frame["key"] == 1)]
        assert first["query"].tolist() == list(range(len(names))) and first["query_token"].tolist() == names
        assert set(zip(frame["key"], frame["key_token"], strict=True)) == set(enumerate([*source.split(), "</s>"]))
        assert set(frame["kind"]) == {"cross"} and "aligned" not in frame

    def test_what_heads_carry_is_in_proportion_to_the_values_that_they_take(self) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        source, target, _ = translator.pairs(1)[0]
        shown = attnscan.show("c1-1", source, target, model=TRANSLATOR, by="carried")
        ((_, matrix),) = shown.matrices()
        model = AutoModelForSeq2SeqLM.from_pretrained(TRANSLATOR, attn_implementation="eager").eval()
        ids = AutoTokenizer.from_pretrained(TRANSLATOR)(source, return_tensors="pt")
        with torch.no_grad():
            states = model.encoder(**ids).last_hidden_state[0]
            across = model.decoder.block[1].layer[1].EncDecAttention
            own = slice(12, 24)  # head 1 of 12 neurons each
            taken = (states @ across.v.weight[own].T) @ across.o.weight[:, own].T
        weights = tiny_translators.eager(TRANSLATOR, source, target).cross_attentions[1][0, 1]
        carried = (weights * taken.norm(dim=-1)).numpy()
        assert_allclose(matrix, carried / carried.sum(-1, keepdims=True), atol=1e-5)

    def test_one_token_of_the_target_and_a_window_of_the_source(self) -> None:
        source, target, _ = translator.pairs(1)[0]
        whole = rows("show", "c0-2", source, target, "--model", str(TRANSLATOR))
        for token in ("1", target.split()[1].lower()):
            part = rows("show", "c0-2", source, target, "--token", token, "--window", "1-2", "--model", str(TRANSLATOR))
            wanted = whole[(whole["query"] == 1) & whole["key"].isin([1, 2])].reset_index(drop=True)
            pd.testing.assert_frame_equal(part, wanted)
        with pytest.raises(SelectionError, match="the input has no token"):  # it is one of the source's
            attnscan.show("c0-2", source, target, token=source.split()[0], model=TRANSLATOR)

    def test_gold_links_are_marked(self, tmp_path: Path) -> None:
        source, target, links = translator.pairs(1)[0]
        (file := tmp_path / "links").write_text(links)
        options = [source, target, "--alignments", str(file), "--model", str(TRANSLATOR)]
        frame = rows("show", "c1-1", *options)
        linked = frame[frame["aligned"] == 1]
        assert {f"{key}-{query}" for key, query in zip(linked["key"], linked["query"], strict=True)} == {*links.split()}
        screen = run("show", "c1-1", *options).stdout
        assert screen.count("█+") == len(links.split()) and "+ behind gold links" in screen
        assert "+" in run("show", "c1-1", *options, "--token", "0").stdout
        unlinked = run("show", "c1-1", source, target, "--model", str(TRANSLATOR)).stdout
        assert "+" not in unlinked and "Queries are the target's words" in unlinked

    def test_the_model_writes_a_target_that_is_missing(self) -> None:
        source, target, _ = translator.pairs(1)[0]
        whole = rows("show", "c1-1", source, target, "--model", str(TRANSLATOR))
        pd.testing.assert_frame_equal(rows("show", "c1-1", source, "--model", str(TRANSLATOR)), whole)
        options = ["--max-target-tokens", "2", "--model", str(TRANSLATOR)]
        assert len(set(rows("show", "c1-1", source, *options)["query"])) == 3  # two words, and the end

    def test_sentences_have_no_meaning_across(self) -> None:
        for side in ("from_sentence", "to_sentence"):
            with pytest.raises(OptionError, match="in cross attention the target asks") as error:
                attnscan.show("c1-1", "bado", "ODAB", model=TRANSLATOR, **{side: "A"})
            assert "\n" not in str(error.value)


class TestCard:
    """Everything about a head of a decoder or of cross attention."""

    @pytest.fixture(scope="class")
    def linked(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        pairs = translator.pairs(12)
        (file := tmp_path_factory.mktemp("linked") / "links").write_text("".join(f"{pair[2]}\n" for pair in pairs))
        return {"pairs": [pair[:2] for pair in pairs], "alignments": file, "model": TRANSLATOR}

    def test_a_cross_heads_scores_are_those_of_a_ranking(self, linked: dict[str, Any]) -> None:
        card = attnscan.head("c1-1", **linked)["c1-1"]
        ranking = attnscan.heads(attention="cross", **linked)
        place = (1, 1, ranking.scores.patterns.index("aligned"))
        assert card.told_by == "aligned" and card.patterns["aligned"]["rank"] == 1
        assert card.ranking.table.score[place] == ranking.table.score[place] > 0.9
        assert (card.row()["kind"], card.row()["among_words"]) == ("cross", "aligned")

    def test_links_are_those_of_plain_loops(self, linked: dict[str, Any]) -> None:
        card = attnscan.head("c0-2", **{**linked, "by": "weight", "special": "in"})["c0-2"]
        links: dict[tuple[str, str], list[float]] = {}
        for source, target in linked["pairs"]:
            weights = tiny_translators.eager(TRANSLATOR, source, target).cross_attentions[0][0, 2].numpy()
            for (query, word), (key, other) in product(enumerate(target.split()), enumerate(source.split())):
                links.setdefault((word, other), []).append(weights[query, key])
        shown = card.links[card.links["key"] != "</s>"]
        assert len(shown)
        for link in shown.itertuples():
            own = links[link.query, link.key]
            assert (link.share, link.count) == (pytest.approx(np.mean(own), abs=1e-5), len(own))

    def test_examples_are_of_the_source_and_behind_it_the_target(self, linked: dict[str, Any]) -> None:
        for example in attnscan.head("c1-1", **linked)["c1-1"].examples:
            source, target = (text.split() for text in example.sentences)
            assert example.units == (*source, "</s>", *target, "</s>") and example.key < len(source) < example.query
            assert example.units[example.query] == example.units[example.key].upper()[::-1]

    @pytest.mark.parametrize("heads", ["c1-1", "d1-0", "e0-2"])
    def test_the_screen_has_at_most_45_lines_and_what_it_suggests_runs(self, heads: str, tmp_path: Path) -> None:
        pairs = translator.pairs(12)
        (file := tmp_path / "p.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b, _ in pairs))
        (links := tmp_path / "links").write_text("".join(f"{own}\n" for *_, own in pairs))
        options = ["--alignments", str(links)] if heads.startswith("c") else []
        screen = run("head", heads, "--pairs", str(file), "--model", str(TRANSLATOR), *options).stdout
        lines = screen.splitlines()
        assert len(lines) <= 45 and max(map(len, lines)) <= 80

    def test_trees_are_an_encoders(self) -> None:
        with pytest.raises(OptionError, match="treebank is of an encoder's attention, and c1-1 is of another"):
            attnscan.head("c1-1", "bado", "ODAB", treebank="x.conllu", model=TRANSLATOR)

    def test_what_a_head_goes_by_is_told_where_positions_can_be_changed(self, checkpoints: Any) -> None:
        pairs = [PAIR, ("a cat ran to the store", "the dog sat too")]
        for model, heads, known in ((checkpoints("bart"), "c1-0", True), (TRANSLATOR, "d0-1", False)):
            why = attnscan.head(heads, pairs=pairs, model=model)[heads].why
            assert np.isnan(why["positions_shuffled"]) != known and np.isnan(why["segments_zeroed"])
            assert why["positions_shuffled"] != why.score
            fixed = "segments" if known else "positions and segments"
            assert evidence(why).endswith(f"{fixed} cannot be changed in this model")


class TestSuggestions:
    """What screens of a kind suggest runs as it is pasted."""

    @pytest.mark.parametrize("attention", ["cross", "decoder", "all"])
    def test_heads_and_classify(self, attention: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # names are short: what would be long is not suggested
        Path("model").symlink_to(TRANSLATOR)
        pairs = translator.pairs(40)
        Path("p.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b, _ in pairs))
        Path("links").write_text("".join(f"{own}\n" for *_, own in pairs))
        linked = [] if attention == "decoder" else ["--alignments", "links"]
        options = ["--attention", attention, "--model", "model"]
        command = suggested(run("heads", "--pairs", "p.tsv", *options, *linked).stdout)
        letter = {"cross": "c", "decoder": "d", "all": ""}[attention]
        assert command[0] == "head" and command[1][0] == (letter or command[1][0])
        assert ("--alignments" in command) == command[1].startswith("c") and "p.tsv" in command
        assert command[1] in run(*command).stdout
        command = suggested(run("classify", *pairs[0][:2], *options).stdout)
        assert command[0] == "head" and command[2:4] == [*pairs[0][:2]]
        assert command[1] in run(*command).stdout


class TestAblate:
    """Heads of decoders and of cross attention switched off, measured by what the model says of the target."""

    @staticmethod
    def _loss(checkpoint: Path, pairs: list[tuple[str, str]], off: tuple[int, int] | None = None) -> float:
        """The loss by eager attention, with a cross head's slice of what the output projection reads put at zero."""
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
        if off is not None:
            layer, head = off
            if hasattr(model, "get_decoder") and hasattr(model.get_decoder(), "block"):
                across = model.get_decoder().block[layer].layer[1].EncDecAttention
                projection, width = across.o, across.key_value_proj_dim
            else:
                across = model.get_decoder().layers[layer].encoder_attn
                projection, width = across.out_proj, across.head_dim

            def silence(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
                states = given[0].clone()
                states[..., head * width : (head + 1) * width] = 0
                return (states,)

            projection.register_forward_pre_hook(silence)
        total, count = 0.0, 0
        for source, target in pairs:
            labels = tokenizer(text_target=target, return_tensors="pt").input_ids
            with torch.no_grad():
                logits = model(**tokenizer(source, return_tensors="pt"), labels=labels).logits[0]
            losses = torch.nn.functional.cross_entropy(logits, labels[0], reduction="none")[:-1]  # but the end
            total, count = total + float(losses.sum()), count + len(losses)
        return total / count

    @pytest.mark.parametrize("which", ["translator", "bart", "marian"])
    def test_the_loss_is_that_of_a_model_whose_head_puts_out_nothing(self, which: str, checkpoints: Any) -> None:
        pairs = [pair[:2] for pair in translator.pairs(8)]
        model = TRANSLATOR
        if which != "translator":
            model, pairs = (
                checkpoints(which),
                [PAIR, ("a cat ran to the store", "the dog sat too"), ("mats", "a mat .")],
            )
        result = attnscan.ablate(pairs, heads="c1-1,c0-0", each=True, model=model)
        for effect, place in zip(result.effects, [(1, 1), (0, 0)], strict=True):
            assert effect.quantity.name == "target" and effect.set.heads[0].place == place
            assert effect.intact == pytest.approx(self._loss(model, pairs), abs=1e-5)
            assert effect.ablated == pytest.approx(self._loss(model, pairs, place), abs=1e-5)
            assert effect.ablated != pytest.approx(effect.intact, abs=1e-6)

    def test_the_head_that_aligns_costs_most_and_the_screen_suggests_what_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("model").symlink_to(TRANSLATOR)
        pairs = translator.pairs(20)
        Path("p.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b, _ in pairs))
        Path("links").write_text("".join(f"{own}\n" for *_, own in pairs))
        options = ["--pairs", "p.tsv", "--model", "model"]
        screen = run("ablate", "--heads", "layer:c1", "--each", *options).stdout
        assert "target" in screen and max(map(len, screen.splitlines())) <= 80
        frame = rows("ablate", "--heads", "layer:c1", *options)
        assert set(frame["measure"]) == {"target"} and (frame["ablated"] > 10 * frame["intact"]).all()
        aligned = rows("ablate", "--attention", "cross", "--alignments", "links", "-p", "aligned", *options)
        assert aligned["heads"].iloc[0] > 0 and (aligned["ablated"] > aligned["intact"]).all()
        card = run("head", "c1-1", "--ablate", *options).stdout
        assert "Without it: target (nats a token)" in " ".join(card.split())

    def test_other_measures_and_models_are_refused_in_a_line(self, checkpoints: Any) -> None:
        with pytest.raises(ModelError, match="cls cannot be measured: cross attention is measured by target") as error:
            attnscan.ablate([PAIR], heads="c1-1", measure=["cls"], model=TRANSLATOR)
        assert "\n" not in str(error.value)
        with pytest.raises(ModelError, match="target cannot be measured: it is for decoder and cross attention"):
            attnscan.ablate([PAIR], heads="0-1", measure=["target"], model=TRANSLATOR)
        assert attnscan.ablate([PAIR], heads="c1-1", model=checkpoints("mvp")).effects[0].n  # which is watched


class TestExplain:
    """How heads of decoders and cross attention make their patterns."""

    def test_logits_of_a_target_words_keys_make_the_weights_of_eager_attention(self) -> None:
        source, target, _ = translator.pairs(1)[0]
        frame = rows("explain", "c1-1", source, target, "--token", target.split()[1], "--model", str(TRANSLATOR))
        expected = tiny_translators.eager(TRANSLATOR, source, target).cross_attentions[1][0, 1, 1].numpy()
        assert_allclose(frame["weight"], expected, atol=1e-6)
        neurons = frame[[f"neuron_{number}" for number in range(12)]]
        assert_allclose(neurons.sum(axis=1), frame["logit"], atol=1e-4)
        assert_allclose(np.exp(frame["logit"]) / np.exp(frame["logit"]).sum(), expected, atol=1e-5)
        assert set(frame["kind"]) == {"cross"} and set(frame["query"]) == {1}
        assert frame["key_token"].tolist() == [*source.split(), "</s>"]

    def test_effective_neurons_are_those_of_plain_loops(self, tmp_path: Path) -> None:
        source, target, links = translator.pairs(1)[0]
        (file := tmp_path / "links").write_text(links)
        result = attnscan.explain("c1-1", source, target, alignments=file, model=TRANSLATOR)
        assert result.attention is not None
        keys, counted = len(source.split()) + 1, []
        for key, query in (map(int, link.split("-")) for link in links.split()):
            products = result.attention.products("c1-1", keys + query)[:keys].astype(float)
            contrast = products[key] - np.delete(products, key, axis=0).mean(0)
            counted.append(np.abs(contrast).sum() ** 2 / (contrast**2).sum())
        head = result["c1-1"]
        assert head.pattern == "aligned" and head.n == len(counted)
        assert head["effective_neurons"] == pytest.approx(np.mean(counted), rel=1e-4)
        assert np.isnan(head["sign_agreement"])

    def test_many_pairs_are_the_mean_of_each_alone(self, tmp_path: Path) -> None:
        pairs = [*translator.pairs(6), translator.pairs(6)[0]]  # two of one length are read in one block
        (file := tmp_path / "links").write_text("".join(f"{pair[2]}\n" for pair in pairs))
        texts = [pair[:2] for pair in pairs]
        together = attnscan.explain("c0-1", pairs=texts, alignments=file, model=TRANSLATOR)["c0-1"]
        total = 0.0
        for text, (*_, links) in zip(texts, pairs, strict=True):
            (alone := tmp_path / "alone").write_text(links)
            own = attnscan.explain("c0-1", *text, pattern="aligned", alignments=alone, model=TRANSLATOR)["c0-1"]
            total += own.n * own["effective_neurons"]
        assert together.pattern == "aligned" and together.pairs == len(pairs)
        assert together["effective_neurons"] == pytest.approx(total / together.n, rel=1e-4)

    def test_a_decoders_head_and_positions_where_the_model_has_them(self, checkpoints: Any) -> None:
        result = attnscan.explain("c1-0,c1-1", pairs=[PAIR, ("a cat ran", "it sat")], model=checkpoints("bart"))
        for head in result.heads:
            assert not np.isnan(result[head]["positions_shuffled"])
            assert np.isnan(result[head]["segments_zeroed"])
        told = attnscan.explain("d1-0", "bado fela gumi", "IMUG ALEF ODAB", model=TRANSLATOR)
        assert told.not_available["positions_shuffled"] == "the model takes no position ids"
        assert "d1-0" in repr(told) and told.to_frame()["kind"].tolist() == ["decoder"]

    def test_predictive_is_an_encoders(self) -> None:
        with pytest.raises(OptionError, match="predictive is explained by one input, of an encoder's attention"):
            attnscan.explain("d1-0", "bado", "ODAB", pattern="predictive", predictive="auto", model=TRANSLATOR)
        with pytest.raises(SelectionError, match="c1-0 is of cross attention and 0-2 is of encoder attention"):
            attnscan.explain("c1-0,0-2", "bado", "ODAB", model=TRANSLATOR)
