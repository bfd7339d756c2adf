"""Holds every head against a treebank: first the rules of distance are chosen without the model, then heads are scored.

Sums travel; each is by half of the sentences (a hash of the sentence says which), since what a half is measured by is
chosen on the other one. Only the errors of gains need more: the sums of each document, as blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from attnscan.errors import InputError, ModelError
from attnscan.hashing import hashed
from attnscan.inputs.batch import SPECIAL, EncodedInput
from attnscan.inputs.pairs import Pair, Record
from attnscan.results.intervals import holm, p_value
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.results.syntax import FEWEST, SIDES, RowNumbers, Syntax
from attnscan.scan.events import Progress, Steps
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import half
from attnscan.scan.stream import OnBad, Stream
from attnscan.scoring.block_sums import ROOM, BlockSums
from attnscan.scoring.relations import Asked, Baselines, RelationScorer, RuleCounts
from attnscan.scoring.sums import added

_LEAST_OWNED = 0.95  # of words: with fewer, the tokenizer's offsets are not those of the text
_FEWEST_BLOCKS, _MOST_BLOCKS = 32, 1024  # of documents: errors are by document up to so many
_TOLD_EVERY = 100  # sentences


def trees_read(records: Iterable[Record], asked: Asked, seed: int) -> Steps[RuleCounts]:
    """How often rules of distance and nearness are right in a treebank; needs no model.

    Raises: InputError if there is no sentence, or one without a tree.
    """
    counts = RuleCounts(asked)
    for record in records:
        counts.add(_tree(record), half(record.pair, seed))
        if counts.sentences % _TOLD_EVERY == 0:
            yield Progress("reading trees", counts.sentences)
    if not counts.sentences:
        raise InputError("there is no sentence in the treebank", "name a .conllu file with at least one")
    return counts


def syntax(
    scanner: Scanner, counts: RuleCounts, read: Callable[[], Iterable[Record]], on_bad: OnBad | None = None
) -> Steps[Syntax]:
    """Every head held against the trees of a treebank that was read before; tells of sentences that are done.

    Raises: InputError if no sentence is left; ModelError if the tokenizer does not tell where its tokens stand.
    """
    scanner = scanner.exact()
    seed, among = scanner.options.seed, scanner.options.reading.among_words
    if _is_causal(scanner):
        counts = yield from trees_read(read(), replace(counts.asked, causal=True), seed)
    baselines = counts.baselines()
    stream = Stream(scanner, read(), on_bad)

    def look(own: Scanner, inputs: Sequence[EncodedInput]) -> Mapping[str, Any]:
        halves = [half(encoded.known_pair, seed) for encoded in inputs]
        batch = own.collate(inputs)
        scorer = RelationScorer(batch, baselines, halves, among=among)
        own.run(batch.model_inputs, scorer)
        _check_offsets(own, inputs)
        return _batch_sums(scorer.sums(), inputs, halves)

    sums: Mapping[str, Any] | None = None
    with closing(stream.worked(look, scanner.crew)) as looked:
        for looks, _ in looked:
            for of_batch in looks:
                sums = added(sums, of_batch)
            yield Progress("holding heads against trees", stream.done, counts.sentences)
    if sums is None:
        raise InputError("no sentence of the treebank is left", "choose what happens to long ones with --on-long")
    spelled, unmet = map(int, sums["spelled"])
    if unmet > (1 - _LEAST_OWNED) * spelled:
        raise _not_told(scanner, f"{unmet:,} of {spelled:,} words have no token")
    return finished(sums, baselines, scanner.signature(stream.seen, fingerprint=True), among=among)


def _tree(record: Record) -> Any:
    """The sentence of a record. Raises: InputError if it has no tree."""
    (sentence, *more) = record.pair.sentences
    if more or sentence.words is None or not {"head", "deprel", "upos"} <= set(sentence.tags):
        raise InputError(f"{record.where}: a sentence without a tree", "name a treebank in CoNLL-U, a .conllu file")
    return sentence


def _is_causal(scanner: Scanner) -> bool:
    """Whether words see none behind them, by running the model on some."""
    batch = scanner.collate([scanner.encode(Pair("the the the"))])
    seen: list[bool] = []
    scanner.run(batch.model_inputs, lambda block: seen.append(bool(block.visible[:1, :, :].triu(1).any())))
    return not any(seen)


def _check_offsets(scanner: Scanner, inputs: Sequence[EncodedInput]) -> None:
    """Raises: ModelError if the tokenizer does not tell which characters its tokens stand for."""
    for encoded in inputs:
        for sentence, (first, last) in zip(encoded.sentence, encoded.spans, strict=True):
            if sentence != SPECIAL and first >= last:
                raise _not_told(scanner, f"a token of sentence {encoded.number} has no character of it")


def _not_told(scanner: Scanner, why: str) -> ModelError:
    tokenizer = type(scanner.loaded.tokenizer).__name__
    return ModelError(
        f"the tokenizer {tokenizer} does not tell where its tokens stand in the text: {why}",
        "use a model with a fast tokenizer (tokenizer.json)",
    )


def _batch_sums(
    sums: Mapping[str, FloatArray], inputs: Sequence[EncodedInput], halves: Sequence[int]
) -> dict[str, Any]:
    """What a batch adds: sums by half, and blocks of documents."""
    of_rows = {name: sums[name] for name in ("n", "offset", "nearest")}
    hits = sums["hits"][..., :-1]  # without even attention
    keys = [_document(encoded) for encoded in inputs]
    by_document = {"hits": hits} | {name: of_rows[name][:, None, :, None] for name in ("n", "offset")}
    sides = np.array(halves)
    by_half = {
        name: np.stack([values[sides == side].sum(0) for side in (0, 1)])
        for name, values in ({"half_hits": hits} | {f"half_{name}": values for name, values in of_rows.items()}).items()
    }
    there = sum(len(encoded.known_pair.sentences[0].words or ()) for encoded in inputs)
    owned = sum(len(set(encoded.words) - {-1}) for encoded in inputs)
    spelled = sum(map(_spelled, inputs))
    rest = {name: values for name, values in sums.items() if name not in ("hits", *of_rows)}
    rest |= {"met": sums["met"].sum(0), "words": np.array([there, there - owned], dtype=np.float64)}
    rest["spelled"] = np.array([spelled, spelled - owned], dtype=np.float64)
    return {
        "documents": BlockSums.of(keys, by_document, max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, ROOM // hits[0].size))),
        **by_half,
        **rest,
    }


def _spelled(encoded: EncodedInput) -> int:
    """How many words have characters that the model was given: not Italian *la* in *nella*, and none that was cut."""
    sentence = encoded.known_pair.sentences[0]
    start, end = 0, len(sentence.text)
    if encoded.truncated:
        spans = [span for own, span in zip(encoded.sentence, encoded.spans, strict=True) if own != SPECIAL]
        start, end = min(spans)[0], max(last for _, last in spans)
    return sum(max(first, start) < min(last, end) for first, last in sentence.words or ())


def _document(encoded: EncodedInput) -> str:
    """The key of a sentence's document or, where the treebank names none, of the sentence."""
    named = encoded.known_pair.sentences[0].tags.get("document", [None])[0]
    return encoded.known_pair.key if named is None else hashed(str(named).encode())


def finished(sums: Mapping[str, Any], baselines: Baselines, signature: Signature, *, among: bool) -> Syntax:
    """The result of sums. Shape: `sums` as `_batch_sums` names them."""
    n_half, offset_half, nearest_half = (sums[f"half_{name}"] for name in ("n", "offset", "nearest"))
    n, offset, too_few = n_half.sum(0), offset_half.sum(0), sums["met"] < FEWEST
    hits = np.moveaxis(sums["half_hits"].sum(0), 1, 2)

    def of_heads(name: str) -> FloatArray:
        """By layer, head and row."""
        return np.moveaxis(sums[name].sum(1), 1, 2)

    def emptied(values: FloatArray) -> FloatArray:
        return np.where(too_few, np.nan, values)

    with np.errstate(invalid="ignore", divide="ignore"):
        eligible = of_heads("eligible")
        weight = of_heads("weight") / (eligible if among else n)
        gain, se, clusters, blocks = _gains(sums["documents"])
        gain, se = emptied(gain), emptied(se)
        p = p_value(np.where(np.isnan(gain), 0, gain), se, clusters)
        elsewhere, follows = (of_heads(name)[:, :-1] / (n - offset) for name in ("elsewhere", "follows"))
        of_rows = RowNumbers(
            n=n.astype(np.int64),
            sentences=sums["met"].astype(np.int64),
            offset=_of_larger_half(np.asarray(baselines.offset), n_half),
            offset_accuracy=emptied(offset / n),
            nearest=_rules(baselines)[_of_larger_half(np.asarray(baselines.nearest), n_half)],
            nearest_accuracy=emptied(nearest_half.sum(0) / n),
            crossed_accuracy=emptied(_crossed(sums["half_hits"], n_half) / n),
        )
        return Syntax(
            baselines.rows,
            of_rows,
            accuracy=emptied(hits / n),
            weight=emptied(weight[:, :-1]),
            weight_among_words=emptied((of_heads("on_words") / eligible)[:, :-1]),
            chance=emptied(np.broadcast_to(weight[:, -1:], hits.shape)),
            gain=gain,
            se=se,
            p_holm=holm(p),
            elsewhere=emptied(elsewhere),
            follows_offset=emptied(follows),
            lift=emptied(of_heads("weight")[:, :-1] / _expected(sums)),
            parts=baselines.parts,
            part_share=np.moveaxis(sums["on_parts"], 1, 2)[:, :-1] / sums["words_with"][:, :-1, None],
            part_frequency=_frequency(sums, causal=baselines.asked.causal),
            uuas=sums["linked"][:, :-1] / sums["links"][0],
            chain_uuas=float(sums["links"][1] / sums["links"][0]),
            clusters=blocks,
            words=int(sums["words"][0]),
            wordless=int(sums["words"][1]),
            signature=signature,
        )


def _frequency(sums: Mapping[str, Any], *, causal: bool) -> FloatArray:
    """The share of words of each part of speech; in a causal model, of those that words see. Shape: [part]."""
    frequency: FloatArray = sums["parts"] / sums["parts"].sum()
    if causal:
        frequency = sums["on_parts"][0, :, -1] / sums["words_with"][0, -1]
    return frequency


def _gains(documents: BlockSums) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """The gain and its error clustered by block, how many blocks a row is in, and how many there are.

    Shape: [layer, head, row] twice, [row].
    Source: the linearized variance of a ratio of cluster totals, Cochran, Sampling Techniques (1977), 6.4.
    """
    stacked = documents.stacked()
    hits, offset, n = (np.moveaxis(stacked[name], 2, 3) for name in ("hits", "offset", "n"))
    clusters, total = (n > 0).sum(0)[0, 0].astype(float), n.sum(0)
    gain = (hits - offset).sum(0) / total
    residual = hits - offset - gain * n
    se: FloatArray = np.sqrt(clusters / (clusters - 1) * np.einsum("blhr,blhr->lhr", residual, residual)) / total
    return gain, np.where(clusters > 1, se, np.nan), clusters, len(n)


def _expected(sums: Mapping[str, Any]) -> FloatArray:
    """The weight on targets if each got what its head gives, in the other half, to words so far away of its kind.

    Where the other half has none, of any kind at that distance. Shape: [layer, head, row].
    """
    habit, cells = sums["habit"][..., :-1], sums["cells"][None, ..., None]  # [layer, half, distance, part, head]
    of_distance = habit.sum(3, keepdims=True) / cells.sum(3, keepdims=True).clip(1)
    mean = np.where(cells > 0, habit / cells.clip(1), of_distance)
    expected: FloatArray = np.einsum("rsdp,lsdph->lhr", sums["targets"], mean[:, ::-1], optimize=True)
    return expected


def _of_larger_half(chosen: Any, n_half: FloatArray) -> Any:
    """A choice by half, as that of more queries. Shape: [half, row] -> [row]."""
    return np.take_along_axis(chosen, n_half.argmax(0)[None], 0)[0]


def _rules(baselines: Baselines) -> Any:
    """Every rule of nearness in words. Shape: [part x side]."""
    return np.array([f"{part} {side}" for part in baselines.parts for side in SIDES])


def _crossed(hits: FloatArray, n: FloatArray) -> FloatArray:
    """Hits of the best head of each half, on the other half. Shape: [half, layer, row, head], [half, row] -> [row]."""
    flat = np.moveaxis(hits, 2, 1).reshape(2, n.shape[1], -1)
    best = flat.argmax(-1)[::-1]
    crossed: FloatArray = np.take_along_axis(flat, best[..., None], -1)[..., 0].sum(0)
    return crossed
