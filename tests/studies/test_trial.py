"""Inputs with something changed equal runs made by hand, and unchanged ones `classify`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from support.ablation_effects import saved_with_tokenizer
from support.checkpoints_of_kinds import CASES as KINDS
from support.checkpoints_of_kinds import saved
from support.families import TAPPED, UNTAPPED, Settings
from support.tokenizers_of_kinds import byte_level, wordpiece
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
    BertForSequenceClassification,
)

from attnscan.errors import AttnscanError, InputError, OptionError, SelectionError
from attnscan.inputs.sentence import Pair
from attnscan.results.attention import Selection
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Change, Prediction
from attnscan.scan.one_input import classify_input
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.studies.interventions import shuffle_words
from attnscan.studies.trial import Trials

PAIR = Pair("the cat sat on the mat .", "a dog ran to the store")
OFF = (Head(0, 1), Head(1, 0), Head(1, 3))


@dataclass(frozen=True)
class Case:
    """A family, and how its model is changed by hand."""

    tokenizer: Callable[[], Any]
    projection: str = ""
    """How the names of modules end that take heads' outputs; none if none are switched off."""
    settings: Settings | None = None

    first_position: int = 0
    segments: bool = False


_BERTS = "attention.output.dense"
CASES = {
    "bert": Case(wordpiece, _BERTS, segments=True),
    "roberta": Case(byte_level, _BERTS, {"pad_token_id": 0}, first_position=1),
    "distilbert": Case(wordpiece, "out_lin"),
    "albert": Case(wordpiece, "attention.dense", segments=True),
    "electra": Case(wordpiece, _BERTS, segments=True),
    "modernbert": Case(wordpiece, "attn.Wo"),
    "deberta-v2": Case(wordpiece),
}


def _enlarge(model: Any) -> Any:
    """Weights that tell words apart."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim == 2:
                weights.normal_(std=0.3)
    return model


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random masked LMs of all families."""
    found = {}
    for family, case in CASES.items():
        found[family] = tmp_path_factory.mktemp(family)
        tokenizer = case.tokenizer()
        torch.manual_seed(0)
        settings = (
            {**TAPPED, **UNTAPPED}[family] | {"vocab_size": len(tokenizer)} | (case.settings or {})
        )
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(family, **settings))
        _enlarge(model)
        model.tie_weights()
        if case.segments:
            tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        model.save_pretrained(found[family])
        tokenizer.save_pretrained(found[family])
    return found


@dataclass
class ByHand:
    """A model as transformers runs it, with its inputs changed."""

    model: Any
    inputs: dict[str, torch.Tensor]

    @classmethod
    def of(cls, directory: Path | str, pair: Pair = PAIR, kind: Any = AutoModelForMaskedLM) -> Self:
        model = kind.from_pretrained(directory, attn_implementation="eager").eval()
        return cls(
            model,
            dict(AutoTokenizer.from_pretrained(directory)(pair.a, pair.b, return_tensors="pt")),
        )

    def run(self) -> Any:
        with torch.no_grad():
            return self.model(**self.inputs, output_attentions=True)

    def puts(self, place: int) -> torch.Tensor:
        """What a masked LM puts in a place. Shape: [vocabulary]."""
        probabilities: torch.Tensor = self.run().logits[0, place].double().softmax(-1)
        return probabilities

    def weights(self) -> np.ndarray:
        """Shape: [layer, head, query, key]."""
        return torch.stack([layer[0] for layer in self.run().attentions]).numpy()

    @contextmanager
    def without(self, heads: tuple[Head, ...], projection: str) -> Iterator[None]:
        """These heads' columns zeroed where they enter an output projection; calls count layers."""
        calls = 0

        def zero(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            nonlocal calls
            states = inputs[0].clone()
            size = states.shape[-1] // self.model.config.num_attention_heads
            for number in (head.head for head in heads if head.layer == calls):
                states[..., number * size : (number + 1) * size] = 0
            calls += 1
            return (states, *inputs[1:])

        modules = [
            module for name, module in self.model.named_modules() if name.endswith(projection)
        ]
        hooks = [module.register_forward_pre_hook(zero) for module in modules]
        yield
        for hook in hooks:
            hook.remove()
        assert calls == 3


@contextmanager
def trials_of(directory: Path | str, **options: Any) -> Iterator[Trials]:
    with open_scanner(
        ScanOptions(**{"model": str(directory), "predictive": "off"} | options)
    ) as scanner:
        yield Trials(scanner)


def weights_of(result: HeadScores) -> np.ndarray:
    assert result.attention is not None
    return result.attention.weights


def _check_word(
    predictions: tuple[Prediction, ...], before: torch.Tensor, after: torch.Tensor
) -> None:
    """The hidden word is predicted as by the model run by hand, and otherwise after the change."""
    (prediction,) = predictions
    (word,) = prediction.words
    for guesses, probabilities in ((word.before, before), (word.after, after)):
        assert_allclose([share for _, share in guesses], probabilities.topk(5).values, atol=1e-5)
    assert word.before != word.after


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v2"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_nothing_changed_equals_classify_to_the_last_bit(
    directories: dict[str, Path], family: str, unit: Any
) -> None:
    pair = Pair("The strawberries sat on the mat, and the cat ran.", "A cat ran to the store!")
    with open_scanner(
        ScanOptions(model=str(directories[family]), predictive="off", unit=unit)
    ) as scanner:
        expected = classify_input(scanner, pair, keep=Selection(every_reading=True))
        result = Trials(scanner).run(pair).result
    assert expected.labels_by.keys() == result.labels_by.keys()
    for reading in expected.labels_by:
        ours = result.select_reading(reading.by, reading.special).to_frame()
        theirs = expected.select_reading(reading.by, reading.special).to_frame()
        assert ours.equals(theirs) and ours.attrs == theirs.attrs
    for name in ("weights", "query", "key", "norms"):
        kept = getattr(result.attention, name)
        as_classified = getattr(expected.attention, name)
        assert (kept is None) == (as_classified is None)
        assert kept is None or np.array_equal(kept, as_classified), name


@pytest.mark.parametrize("family", CASES)
def test_hidden_words_equal_a_run_on_masked_ids(directories: dict[str, Path], family: str) -> None:
    hand = ByHand.of(directories[family])
    tokenizer = AutoTokenizer.from_pretrained(directories[family])
    ids = hand.inputs["input_ids"]
    places = (2, 6)
    truths = ids[0, list(places)].tolist()
    hand.inputs["input_ids"] = ids.clone()
    hand.inputs["input_ids"][0, list(places)] = tokenizer.mask_token_id
    with trials_of(directories[family]) as trials:
        trial = trials.run(PAIR, Change(hidden=places))
    result = trial.result
    (prediction,) = trial.predictions
    assert_allclose(weights_of(result), hand.weights(), atol=1e-6)
    assert [result.units[place] for place in places] == [tokenizer.mask_token] * 2
    assert trial.tokens[2] != tokenizer.mask_token and len(trial.tokens) == len(result.units)
    logits = hand.run().logits[0].double().numpy()
    for word, place, truth in zip(prediction.words, places, truths, strict=True):
        shares = np.exp(logits[place]) / np.exp(logits[place]).sum()
        top = np.argsort(-shares)[:5]
        assert (word.place, word.truth, word.before) == (place, trial.tokens[place], word.after)
        assert_allclose([share for _, share in word.after], shares[top], atol=1e-5)
        assert_allclose(word.truth_after, shares[truth], atol=1e-5)
        decoded = [
            tokenizer.decode([id_])
            if family == "roberta"
            else tokenizer.convert_ids_to_tokens([id_])[0]
            for id_ in top
        ]
        texts = [text for text, _ in word.after]
        assert texts == [
            text if whole == "\ufffd" else whole for text, whole in zip(texts, decoded, strict=True)
        ]


@pytest.mark.parametrize("family", [family for family, case in CASES.items() if case.projection])
def test_heads_off_are_zeros_before_the_output_projection(
    directories: dict[str, Path], family: str
) -> None:
    hand = ByHand.of(directories[family])
    hand.inputs["input_ids"][0, 3] = AutoTokenizer.from_pretrained(
        directories[family]
    ).mask_token_id
    intact = hand.weights()
    before = hand.puts(3)
    with trials_of(directories[family]) as trials:
        trial = trials.run(PAIR, Change(hidden=(3,), off=OFF))
        again = trials.run(PAIR, Change(hidden=(3,))).result
    projection = CASES[family].projection
    with hand.without(OFF, projection):
        weights = hand.weights()
    with hand.without(OFF, projection):
        after = hand.puts(3)
    assert_allclose(weights_of(trial.result), weights, atol=1e-6)
    assert_allclose(weights_of(again), intact, atol=1e-6)  # nothing is left behind
    assert_allclose(weights[0], intact[0], atol=1e-6)
    assert all(
        np.abs(weights[layer] - intact[layer]).max() > 1e-3 for layer in (1, 2)
    )  # later layers see it
    _check_word(trial.predictions, before, after)


@pytest.mark.parametrize(
    "family", [family for family in CASES if family not in ("deberta-v2", "modernbert")]
)
def test_shuffled_positions_equal_position_ids_by_hand(
    directories: dict[str, Path], family: str
) -> None:
    hand = ByHand.of(directories[family])
    plain = hand.weights()
    with trials_of(directories[family], seed=3) as trials:
        trial = trials.run(PAIR, Change(hidden=(4,), positions="shuffled"))
        again = trials.run(PAIR, Change(hidden=(4,), positions="shuffled")).result
        encoded = trials._scanner.encode(PAIR)
        order = shuffle_words(
            [encoded], len(encoded.tokens), 3
        )  # of the words as they are: hiding one moves none
    hand.inputs["input_ids"][0, 4] = AutoTokenizer.from_pretrained(
        directories[family]
    ).mask_token_id
    before = hand.puts(4)
    hand.inputs["position_ids"] = order + CASES[family].first_position
    assert_allclose(weights_of(trial.result), hand.weights(), atol=1e-5)
    assert_array_equal(weights_of(again), weights_of(trial.result))
    assert np.abs(weights_of(trial.result) - plain).max() > 1e-3
    _check_word(trial.predictions, before, hand.puts(4))


def _bert_with(kind: Any, **more: Any) -> Any:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, **{k: v for k, v in TAPPED["bert"].items() if k != "vocab_size"}, **more
    )
    return _enlarge(kind(config))


def test_a_classifier_says_its_classes_before_and_after(tmp_path: Path) -> None:
    names = {0: "no", 1: "perhaps", 2: "yes"}
    model = _bert_with(
        BertForSequenceClassification, id2label=names, label2id={v: k for k, v in names.items()}
    )
    directory = saved_with_tokenizer(tmp_path, model)
    hand = ByHand.of(directory, kind=AutoModelForSequenceClassification)
    before = hand.run().logits[0].double().softmax(-1)
    with hand.without(OFF, _BERTS):
        after = hand.run().logits[0].double().softmax(-1)
    with trials_of(directory) as trials:
        (prediction,) = trials.run(PAIR, Change(off=OFF)).predictions
        encoded = trials._scanner.encode(PAIR)
        (moved,) = trials.run(PAIR, Change(positions="shuffled")).predictions
    assert prediction.kind == "classes"
    assert [name for name, _, _ in prediction.classes] == ["no", "perhaps", "yes"]
    assert_allclose(
        [[b, a] for _, b, a in prediction.classes], torch.stack([before, after], -1), atol=1e-5
    )
    hand.inputs["position_ids"] = shuffle_words([encoded], len(encoded.tokens), 0)
    assert_allclose(
        [a for _, _, a in moved.classes], hand.run().logits[0].double().softmax(-1), atol=1e-5
    )


def test_a_pretrained_model_predicts_words_and_next_sentences(tmp_path: Path) -> None:
    directory = saved_with_tokenizer(tmp_path, _bert_with(BertForPreTraining))
    hand = ByHand.of(directory, kind=BertForPreTraining)
    with torch.no_grad():
        expected = hand.model(**hand.inputs).seq_relationship_logits[0].double().softmax(-1)
    with trials_of(directory) as trials:
        words, follows = trials.run(PAIR).predictions
        _, alone = trials.run(Pair(PAIR.a)).predictions
    assert (words.kind, words.words) == ("words", ()) and "hide a word" in words.why_none
    assert follows.kind == "next-sentence" and not follows.why_none
    assert_allclose([after for _, _, after in follows.classes], expected, atol=1e-5)
    assert alone.classes == () and "second sentence" in alone.why_none


def test_a_bare_encoder_says_how_far_its_vectors_turn(tmp_path: Path) -> None:
    directory = saved_with_tokenizer(tmp_path, _bert_with(AutoModel.from_config))
    hand = ByHand.of(directory, kind=AutoModel)
    intact = hand.run().last_hidden_state[0].double()
    with hand.without(OFF, _BERTS):
        changed = hand.run().last_hidden_state[0].double()
    with trials_of(directory) as trials:
        (prediction,) = trials.run(PAIR, Change(off=OFF)).predictions
        (nothing,) = trials.run(PAIR, Change(hidden=(2,))).predictions
    assert prediction.kind == "vectors"
    expected = 1 - (intact * changed).sum(-1) / intact.norm(dim=-1) / changed.norm(dim=-1)
    assert_allclose(prediction.turned, expected, atol=1e-5)
    assert max(prediction.turned) > 1e-3
    assert nothing.turned == () and "switch heads off" in nothing.why_none


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (Change(hidden=(0,)), InputError, "there is no word at token 0 that could be hidden"),
        (Change(hidden=(2, 99)), InputError, "there is no word at token 99 that could be hidden"),
        (Change(off=(Head(3, 0),)), SelectionError, "this model has layers 0 to 2"),
        (Change(off=(Head(0, 4),)), SelectionError, "this model has heads 0 to 3"),
    ],
)
def test_what_cannot_be_changed_is_refused_in_a_line(
    directories: dict[str, Path], change: Change, error: type[AttnscanError], said: str
) -> None:
    with trials_of(directories["bert"]) as trials:
        with pytest.raises(error, match=said):
            trials.run(PAIR, change)
        assert trials.run(PAIR).result.units[0] == "[CLS]"  # and the next input is read


def test_what_a_model_does_not_allow_it_says_beforehand(
    directories: dict[str, Path], tmp_path: Path
) -> None:
    with trials_of(directories["deberta-v2"]) as trials:
        assert trials.available["hidden"] == trials.available["off"] == ""
    with trials_of(directories["distilbert"]) as trials:
        assert trials.available["segments"] == "the model reads no segment ids"
        assert [name for name, why in trials.available.items() if not why] == [
            "hidden",
            "positions",
            "off",
        ]
        with pytest.raises(OptionError, match="segments cannot be changed"):
            trials.run(PAIR, Change(segments="zeroed"))
    with trials_of(saved(KINDS["decoder without delimiters"], tmp_path)) as trials:
        assert trials.available["hidden"] == "the model has no mask token"
        with pytest.raises(
            OptionError, match="hidden cannot be changed: the model has no mask token"
        ):
            trials.run(PAIR, Change(hidden=(1,)))
