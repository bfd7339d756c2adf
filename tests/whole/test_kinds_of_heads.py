"""Commands about certain heads of an encoder-decoder: what they show is what eager attention shows."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tiny_translators
import translator
from command_line import run
from numpy.testing import assert_allclose

import attnscan
from attnscan.errors import OptionError, SelectionError

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
        import torch
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

    def test_the_decoders_square_is_causal(self) -> None:
        source, target, _ = translator.pairs(1)[0]
        frame = rows("show", "d1-0", source, target, "--model", str(TRANSLATOR))
        assert len(frame) == (1 + len(target.split())) ** 2
        assert (frame["weight"][frame["key"] > frame["query"]] == 0).all()

    def test_the_model_writes_a_target_that_is_missing(self) -> None:
        source, target, _ = translator.pairs(1)[0]
        whole = rows("show", "c1-1", source, target, "--model", str(TRANSLATOR))
        pd.testing.assert_frame_equal(rows("show", "c1-1", source, "--model", str(TRANSLATOR)), whole)
        options = ["--max-target-tokens", "2", "--model", str(TRANSLATOR)]
        assert len(set(rows("show", "c1-1", source, *options)["query"])) == 3  # two words, and the end
        assert "B  is written by the model" in run("show", "c1-1", source, *options).stdout

    def test_sentences_have_no_meaning_across(self) -> None:
        for side in ("from_", "to"):
            with pytest.raises(OptionError, match="in cross attention the target asks") as error:
                attnscan.show("c1-1", "bado", "ODAB", model=TRANSLATOR, **{side: "A"})
            assert "\n" not in str(error.value)

    def test_the_mean_of_heads_is_theirs(self) -> None:
        source, target, _ = translator.pairs(1)[0]
        ((_, mean),) = attnscan.show("layer:c1", source, target, average=True, model=TRANSLATOR).matrices()
        expected = tiny_translators.eager(TRANSLATOR, source, target).cross_attentions[1][0].mean(0).numpy()
        assert_allclose(mean, expected, atol=1e-6)
        assert np.isclose(mean.sum(-1), 1).all()
