"""What sets two models apart, by construction; and which heads of one are alike, by their rows."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_loops import Measured, Score
from numpy.testing import assert_allclose
from scipy.special import rel_entr
from support.toy_bert import AFTER, BEFORE, PAIRS, save_toy_bert

from attnscan.errors import InputError, ModelError, TooLongError
from attnscan.inputs.batch import Relation
from attnscan.inputs.sentence import Pair, Record
from attnscan.inputs.vocabulary import Units
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.choices import Match
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.grid import Head
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.studies.comparison import compare, similar
from attnscan.studies.explanation import rotations


def _read(pairs: list[Pair] = PAIRS) -> list[Record]:
    return [Record(pair, "here") for pair in pairs]


def _difference(found: Comparison, pattern: str) -> np.ndarray:
    """Shape: [layer, head]."""
    return found.of(pattern)["difference"].to_numpy().reshape(found.grid.shape)


def _options(model: Path | str, **more: Any) -> ScanOptions:
    measured = tuple(pattern for pattern in PATTERNS if pattern.target is not None)
    return ScanOptions(model=str(model), predictive="off", patterns=measured, **more)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("before"), 2, 4, BEFORE)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("after"), 2, 4, AFTER)


def _compared(
    one: Path, other: Path, match: Match = "place", pairs: list[Pair] = PAIRS, special: str = "out"
) -> Comparison:
    with (
        open_scanner(_options(one, special=special)) as scanner,
        open_scanner(_options(other, special=special)) as rival,
    ):
        return compare(scanner, rival, _read(pairs), match)


def _relate(*pairs: str) -> Relation:
    """A relation that is written down, for inputs of which every token is a unit."""
    related_words = {frozenset(pair.split()) for pair in pairs}

    def related(inputs: Sequence[Units]) -> torch.Tensor:
        found = torch.zeros(
            len(inputs), *[max(len(tokens) for tokens, *_ in inputs)] * 2, dtype=torch.bool
        )
        for row, (tokens, *_) in zip(found, inputs, strict=True):
            for i, j in np.ndindex(len(tokens), len(tokens)):
                row[i, j] = frozenset((tokens[i], tokens[j])) in related_words
        return found

    return related


@pytest.mark.parametrize("match", ["place", pytest.param("nearest", marks=pytest.mark.long)])
@pytest.mark.loads_anew
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_model_differs_from_itself_by_exactly_nothing(bundled_dir: Path, match: Match) -> None:
    found = _compared(bundled_dir, bundled_dir, match)
    rows = found.differences.dropna(subset=["difference", "se"])
    assert len(rows) and (rows[["difference", "se"]] == 0).all(axis=None) and (rows["p"] == 1).all()
    assert not found.changed and not found.differences["survives"].any()
    assert found.correlation("next-word") == pytest.approx(1)
    if match == "nearest":
        assert_allclose(found.divergence, 0, atol=1e-6)


@pytest.mark.loads_anew
def test_rotating_queries_and_keys_together_changes_nothing(
    bundled_dir: Path, tmp_path: Path
) -> None:
    """The weights are the same but for rounding, and so beyond chance where rounding has a side."""
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(bundled_dir)
    with torch.no_grad():
        for number, layer in enumerate(model.encoder.layer):
            for head in range(12):
                rows = slice(32 * head, 32 * head + 32)
                turned = rotations(0, number, head, 32)[1]
                for part in (layer.attention.self.query, layer.attention.self.key):
                    part.weight[rows] = turned @ part.weight[rows]
                    part.bias[rows] = turned @ part.bias[rows]
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(bundled_dir).save_pretrained(tmp_path)
    found = _compared(bundled_dir, tmp_path)
    assert found.differences["difference"].abs().max() < 1e-4
    assert not found.differences["survives"].any() and found.least == 0.02


def test_what_was_changed_is_found_and_nothing_else(before: Path, after: Path) -> None:
    found = _compared(before, after)
    difference = _difference(found, "delimiter")
    assert difference[1, 2] > 0.5 and difference[0, 0] == 0
    surviving = found.of("delimiter").query("survives")["difference"]
    rises = found.grid[surviving.idxmax()]
    falls = found.grid[surviving.idxmin()]
    assert rises in (Head(0, 3), Head(1, 2)) and falls == Head(0, 1)
    changed = set().union(*found.changed.values())
    assert changed == {Head(0, 1), Head(0, 3), Head(1, 0), Head(1, 1), Head(1, 2), Head(1, 3)}
    assert Head(1, 2) in found.changed["previous-word", "delimiter"]


def test_words_are_related_where_both_models_say_so(before: Path, after: Path) -> None:
    pairs = [
        Pair("the cat sat", "a dog ran"),
        Pair("i bought a cat", "the mat ran"),
        Pair("a dog went to the store"),
    ]
    with open_scanner(_options(before)) as one, open_scanner(_options(after)) as other:
        ours = replace(one, relation=_relate("cat dog", "sat ran", "bought mat"))
        theirs = replace(other, relation=_relate("cat dog", "bought ran"))
        found = compare(ours, theirs, _read(pairs))
        exchanged = compare(theirs, ours, _read(pairs))
        with_one = compare(
            replace(one, relation=_relate("cat dog")),
            replace(other, relation=_relate("cat dog")),
            _read(pairs),
        )
        without = compare(replace(one, relation=None), replace(other, relation=None), _read(pairs))
    p = found.patterns.index("cross-sentence")
    for labels in found.model_labels:
        assert (labels.scores.every_key.n[..., p] == 2).all()  # a cat and a dog, of the first pair
    assert (without.model_labels[0].scores.every_key.n[..., p] == 0).all()
    ours = found.differences
    theirs = exchanged.differences
    assert_allclose(ours["difference"], with_one.differences["difference"])
    assert_allclose(theirs["difference"], -ours["difference"])
    assert_allclose(theirs[["se", "p"]], ours[["se", "p"]], atol=1e-7)
    assert (
        found.alike
        == exchanged.alike
        == "words are related where the embeddings of both models say so."
    )
    assert "--no-related" in without.alike


def test_heads_that_moved_are_found_by_what_they_attend_to(before: Path, after: Path) -> None:
    found = _compared(before, after, "nearest", special="in")
    matched = {head: tuple(found.matched[head].tolist()) for head in BEFORE}
    assert matched == {(0, 0): (0, 0), (0, 1): matched[0, 1], (1, 2): (1, 1), (1, 3): (1, 0)}
    assert matched[0, 1] in ((0, 3), (1, 2))  # two are equally near
    for head in BEFORE:
        assert found.divergence[head] == pytest.approx(0, abs=1e-6)
        rows = found.differences.query(f"layer == {head[0]} and head == {head[1]}")
        assert_allclose(rows["difference"].fillna(0), 0, atol=1e-6)
    assert not found.changed


def _sums_of_pairs(model: Path) -> list[np.ndarray]:
    """Of each pair. Shape: [weight or n, layer, head, pattern]."""
    sums = []
    with open_scanner(_options(model)) as scanner:
        for pair in PAIRS:
            scored = scanner.score([scanner.encode(pair)])
            sums.append(np.stack([scored["every_key.weight"][0], scored["every_key.n"][0]]))
    return sums


def test_differences_and_their_errors_are_those_of_a_plain_loop(before: Path, after: Path) -> None:
    found = _compared(before, after, special="in")
    sums_before = _sums_of_pairs(before)
    sums_after = _sums_of_pairs(after)
    for place in np.ndindex(found.se.shape):
        ours = Score([Measured(*pair_sums[:, *place]) for pair_sums in sums_before])
        theirs = Score([Measured(*pair_sums[:, *place]) for pair_sums in sums_after])
        difference = _difference(found, found.patterns[place[-1]])[place[:2]]
        assert difference == pytest.approx(theirs.mean() - ours.mean(), abs=1e-9, nan_ok=True)
        assert found.se[place] == pytest.approx(ours.se_beside(theirs), abs=1e-7, nan_ok=True)
    assert not np.isnan(found.se).all()


def test_pairs_that_one_of_them_cannot_read_count_for_neither(
    before: Path, after: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    long = Pair("the cat sat on the mat " * 9)
    tokenizer = AutoTokenizer.from_pretrained(after, model_max_length=20)
    short = shutil.copytree(after, tmp_path / "short")
    tokenizer.save_pretrained(short)
    with (
        open_scanner(_options(before)) as one,
        open_scanner(_options(short, on_long="skip")) as other,
    ):
        found = compare(one, other, _read([PAIRS[0], long, *PAIRS[1:]]))
        with pytest.raises(TooLongError, match="here: the input is"):
            compare(one, other.with_options(on_long="error"), _read([long]))
    whole = _compared(before, after)
    assert found.model_labels[0].scores.every_key.pairs.max() == len(PAIRS) and [
        signature.pairs_skipped for signature in found.signatures
    ] == [1, 1]
    assert_allclose(found.differences["difference"], whole.differences["difference"], atol=1e-9)


def test_other_shapes_need_another_match(before: Path, tmp_path: Path) -> None:
    smaller = save_toy_bert(tmp_path, 1, 4, {(0, 2): "next-word"})
    with pytest.raises(
        ModelError,
        match="2 × 4 and 1 × 4 heads, which have no places in common; pass match='nearest'",
    ):
        _compared(before, smaller)
    found = _compared(before, smaller, "nearest")
    assert found.matched.shape == (2, 4, 2) and tuple(found.matched[0, 0]) == (0, 2)


ALIKE = {
    (0, 0): "next-word",
    (0, 1): "delimiter",
    (1, 2): "next-word",
    (1, 0): "previous-word",
    (1, 3): "delimiter",
}
SOME_PAIRS = [
    Pair("the cat sat on the mat", "a dog ran"),
    Pair("i went to the store ."),
    Pair("a cat", "the cat ran"),
]


def _records() -> Iterator[Record]:
    return iter([Record(pair, "here") for pair in SOME_PAIRS])


@pytest.fixture(scope="module")
def directory_of_alike(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("alike"), 2, 4, ALIKE))


@pytest.fixture(scope="module")
def scanner(directory_of_alike: str) -> Iterator[Scanner]:
    with open_scanner(
        ScanOptions(model=directory_of_alike, predictive="off", special="in")
    ) as scanner:
        yield scanner


@pytest.fixture(scope="module")
def alike(scanner: Scanner) -> Similarity:
    return similar(scanner, _records(), queries=100)


def test_divergences_are_those_of_rows_of_weights(scanner: Scanner, alike: Similarity) -> None:
    """Of each row, half the relative entropies of both heads' to the mean of both."""
    total = np.zeros((8, 8))
    count = 0
    for pair in SOME_PAIRS:
        encoded = scanner.encode(pair)
        keeper = AttentionKeeper()
        scanner.score([encoded], observers=[keeper])
        words = [place for place, sentence in enumerate(encoded.sentence) if sentence >= 0]
        rows = (
            keeper.attention(encoded)
            .weights.reshape(8, len(encoded.tokens), -1)[:, words]
            .astype(float)
        )
        mean = (rows[:, None] + rows[None]) / 2
        total += (rel_entr(rows[:, None], mean) + rel_entr(rows[None], mean)).sum((-1, -2)) / 2
        count += len(words)
    assert_allclose(alike.divergence, total / count, atol=2e-6)
    assert alike.queries == count == 9 + 6 + 5


def test_heads_made_equal_diverge_by_nothing_and_are_of_one_group(alike: Similarity) -> None:
    number = {head.place: number for number, head in enumerate(alike.grid)}
    assert alike.divergence[number[0, 0], number[1, 2]] == pytest.approx(0, abs=1e-6)
    groups = []
    for group in alike.groups:
        groups.append({alike.grid[head] for head in group})
    assert (
        {Head(0, 0), Head(1, 2)} in groups
        and {Head(0, 1), Head(1, 3)} in groups
        and {Head(1, 0)} in groups
    )
    assert alike.nearest(number[0, 0], 1) == [number[1, 2]]
    places, _ = alike.map
    assert_allclose(places[number[0, 0]], places[number[1, 2]], atol=1e-3)
    assert alike.labels.label[0, 0] == alike.labels.label[1, 2] == "next-word"


def test_alike_of_no_pair_is_an_error(scanner: Scanner) -> None:
    with pytest.raises(InputError, match="no pair"):
        similar(scanner, [])
