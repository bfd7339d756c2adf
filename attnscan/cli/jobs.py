"""What the commands on one input do between parsing and printing: choose the model, run, tell what to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.cli.messages import WITHOUT_TAP, progress, say
from attnscan.results.files import check_writable, write_file
from attnscan.results.terms import Sentence
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from attnscan.results.attention import Attention
    from attnscan.results.classification import Classification
    from attnscan.results.dependencies import Dependencies
    from attnscan.results.explanation import Explanations
    from attnscan.results.head_weights import HeadWeights
    from attnscan.results.signature import Signature


def score_file(path: Path, options: ScanOptions) -> Classification:
    """Score saved weights."""
    return keep_file(path, options)[0]


def keep_file(path: Path, options: ScanOptions) -> tuple[Classification, Attention]:
    """Score saved weights, and hand them on."""
    from attnscan.inputs.weights import read_weights

    saved = read_weights(path)  # before torch: a bad file is answered at once
    from attnscan.scan.one_input import classify_weights_and_keep

    return classify_weights_and_keep(saved, path.name, options)


def keep(a: str | None, b: str | None, weights: Path | None, options: ScanOptions) -> tuple[Classification, Attention]:
    """Score saved weights, or else one input, and hand the attention on."""
    return keep_pair(str(a), b, options) if weights is None else keep_file(weights, options)


def score_pair(a: str, b: str | None, options: ScanOptions, save_to: Path | None) -> Classification:
    """Score one input, and save its weights if there is a place for them."""
    if save_to is not None:
        check_writable(save_to)
    result, attention = keep_pair(a, b, options)
    if save_to is not None:
        from attnscan.inputs.weights import write_weights

        write_file(save_to, write_weights(attention.saved()))
    return result


def keep_pair(a: str, b: str | None, options: ScanOptions) -> tuple[Classification, Attention]:
    """Score one input, and keep its attention."""
    from attnscan.inputs.pairs import Pair
    from attnscan.model.sources import choose

    pair = Pair(a, b)
    source = choose(options.model)
    say(source.note)
    from attnscan.scan.one_input import classify_and_keep

    with progress("hidden sequences") as report:
        result, attention = classify_and_keep(pair, options, source, report)
    say_if_cut(result.signature, len(attention.tokens))
    if result.signature.read_by == "output_attentions":
        say(WITHOUT_TAP)
    return result, attention


def show_heads(
    kept: tuple[Classification, Attention],
    *,
    heads: str,
    average: bool,
    token: str | None,
    sentences: tuple[Sentence | None, Sentence | None],
    window: tuple[int, int] | None,
) -> HeadWeights:
    """Cut out of one input's attention the heads and tokens that were asked for."""
    from attnscan.results.head_weights import HeadWeights, tokens_within
    from attnscan.results.heads import heads_named, token_named

    result, attention = kept
    only = None if token is None else token_named(token, attention.tokens)
    queries, keys = sentences
    return HeadWeights(
        result=result,
        attention=attention,
        heads=tuple(heads_named(heads, attention.grid)),
        average=average,
        queries=tokens_within(attention, queries, window if only is None else None, only),
        keys=tokens_within(attention, keys, window),
    )


def explain_one(
    a: str, b: str | None, options: ScanOptions, *, heads: str, pattern: str | None, token: str | None
) -> tuple[Explanations, int | None]:
    """Explain the heads that are named by one input. Returns also the index of the token that was asked about."""
    from attnscan.inputs.pairs import Pair, Record
    from attnscan.model.sources import choose
    from attnscan.results.heads import heads_named, token_named

    record, source = Record(Pair(a, b), "the input"), choose(options.model)
    say(source.note)
    from attnscan.scan.scanner import Scanner
    from attnscan.studies.explanation import explain_input

    with Scanner(options, source) as scanner:
        tokens = scanner.encode(record.pair).tokens
        query = None if token is None else token_named(token, tokens)
        found = explain_input(scanner, record, heads_named(heads, scanner.grid()), pattern)
        if scanner.read_by == "output_attentions":
            say(WITHOUT_TAP)
    say_if_cut(found.signature, len(tokens))
    return found, query


def say_if_cut(signature: Signature, length: int) -> None:
    """Tell the user that an input was cut."""
    if signature.pairs_truncated:
        say(f"the input was cut to the {length} tokens that the model reads")


def ask_dependencies(a: str, b: str | None, options: ScanOptions) -> Dependencies:
    """Ask the model which words of one input help to predict which."""
    from attnscan.inputs.pairs import Pair
    from attnscan.model.sources import choose

    pair, source = Pair(a, b), choose(options.model)
    say(source.note)
    from attnscan.scan.one_input import dependencies

    with progress("hidden sequences") as report:
        result = dependencies(pair, options, source, report)
    say_if_cut(result.signature, len(result.units))
    return result
