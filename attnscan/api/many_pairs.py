"""What `import attnscan` offers for many pairs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Unpack, get_args

from attnscan.api.given import (
    Pairs,
    check_kind,
    check_known,
    checked,
    explained,
    is_name,
    listed,
    opened,
    options_of,
    paths_of,
    read_again,
    records_of,
    without_norm,
)
from attnscan.errors import InputError, OptionError
from attnscan.inputs.columns import Reading
from attnscan.inputs.pairs import Record, read_pairs, shipped_pairs
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.results.ablation import Ablation
from attnscan.results.comparison import Comparison
from attnscan.results.explanation import Explanations
from attnscan.results.heads import Heads, heads_named, heads_written
from attnscan.results.profile import Profile
from attnscan.results.ranking import Ranking
from attnscan.results.similarity import Similarity, check_heads_can_be_grouped
from attnscan.results.terms import DRAWS, MEASURES, QUERIES, WITHIN, By, Match
from attnscan.scan.cluster.blocks import BlockFiles
from attnscan.scan.local import ScanState, scan
from attnscan.scan.options import Choices, ClusterOptions, asked_for_labels, check_number
from attnscan.scan.per_pair import PerPairWriter
from attnscan.scan.scanner import Scanner
from attnscan.scan.stream import OnBad
from attnscan.scoring.patterns import PATTERNS
from attnscan.studies import ablation, comparison, explanation, similarity
from attnscan.studies.head_sets import AblationRequest
from attnscan.views.notebook import ranking_html


@checked
def rank_heads(
    pairs: Pairs, *, model: Model = None, tokenizer: Tokenizer = None, **options: Unpack[Choices]
) -> Ranking:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` ranks the heads.

    `label` says what each head does over all of them and `to_labels()` how sure that is; not so where `patterns` are
    chosen, or with `labelled=False`, which takes about a fifth less time.

    Inputs that are longer than the model reads are cut, unless `on_long` says otherwise.

    Raises: as `classify`.
    """
    scored, records = options_of(model, _of_many(options)), records_of(pairs)
    with opened(model, tokenizer, scored) as scanner:
        return _ranked(scanner, records)


@checked
def profile(pairs: Pairs, *, model: Model = None, tokenizer: Tokenizer = None, **options: Unpack[Choices]) -> Profile:
    """What every head does in full, over many sentences or pairs of them, read one by one: `to_frame()` has a row each.

    A head's attention as a sum of simple parts, each with its share, its error, and what stays unexplained. Patterns of
    one's own are parts as well; with `predictive="auto"`, so are the words that help to predict, which takes long,
    since every pair is asked. `rank_files(..., profile=True).profile` is the same over files, or on a cluster.

    Raises: as `classify`.
    """
    asked = options_of(model, {"on_long": "truncate", "predictive": "off", **options, "profile": True})
    records = records_of(pairs)
    with opened(model, tokenizer, asked) as scanner:
        found = _ranked(scanner, records).profile
    assert found is not None
    return found


@checked
def rank_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    columns: Sequence[str] | None = None,
    id: str | None = None,
    on_bad: Callable[[InputError], None] | None = None,
    per_pair: str | os.PathLike[str] | None = None,
    cluster: ClusterOptions | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Ranking:
    """Every head's scores over the pairs of files, read as `attnscan heads --pairs` reads them; on a Ray cluster, too.

    Without `paths`, over the pairs that attnscan ships. `columns` names the one or two that hold the sentences. A bad
    record is given to `on_bad` and left out (of a cluster's, the first three); without it, it is an error. `per_pair`
    is a file, on a cluster a new directory, for the scores of every pair as Parquet, with the pair's file and row and,
    if a column is named by `id`, what that says of it.

    Raises: as `classify`; PairsError for a file that cannot be read; OutputError if `per_pair` cannot be written;
    EngineError if the cluster fails.
    """
    scored = options_of(model, _of_many(options))
    names = paths_of(paths)
    if id is not None:
        check_kind("id", id, str)
    reading = Reading(None if columns is None else tuple(listed("columns", columns)), id=id)
    place = None if per_pair is None else Path(*paths_of([per_pair]))
    if on_bad is not None and not callable(on_bad):
        raise OptionError("on_bad is no function", "give one that takes an InputError")
    if cluster is None:
        records = read_pairs(names, reading, on_bad) if names else shipped_pairs()
        with opened(model, tokenizer, scored) as scanner:
            return _ranked(scanner, records, on_bad, place, ids=id is not None)
    check_kind("cluster", cluster, ClusterOptions)
    if not names:
        raise OptionError("a cluster reads files, and none is named", "name files that all of its machines can read")
    if not is_name(model):
        raise OptionError("a cluster cannot run a model that is in memory", "save it where all machines find it")
    from attnscan.scan.cluster.scan import scan_on_ray

    blocks = BlockFiles(tuple(names), reading, on_bad is not None, cluster.block_pairs)
    ranking, bad = scan_on_ray(scored, blocks, cluster, per_pair=place)
    if on_bad is not None:
        for error in bad.first:
            on_bad(error)
    return replace(ranking, html=ranking_html)


@checked
def explain_over(
    pairs: Pairs,
    *,
    heads: Heads = "all",
    pattern: str | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Explanations:
    """How heads make their patterns, as `explain` says it, by many sentences or pairs, read one by one.

    Raises: as `explain`.
    """
    asked = explained(model, pattern, {"on_long": "truncate", **options})
    records, named = records_of(pairs), heads_written(heads)
    with opened(model, tokenizer, asked) as scanner:
        return explanation.explain(scanner, records, heads_named(named, scanner.grid()), pattern)


@checked
def ablate(
    pairs: Pairs,
    *,
    heads: Heads | None = None,
    singly: bool = False,
    top: int | None = None,
    by: By = "zero",
    draws: int = DRAWS,
    measures: Sequence[str] = (),
    labels: Iterable[str] = (),
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Ablation:
    """What a model loses without some heads, beside what it loses without others. `to_frame()` has a row a set.

    The sets are the heads that are labelled with each of `patterns` (or at most `top` that are most above chance),
    found by a scan of one half of the pairs and measured on the other; or `heads`, as one set, or with `singly`
    each of these or of all heads alone, measured on all pairs. A set's output is put at zero or at its mean, and
    compared with `draws` distinct sets of other heads of the same layers, or with all where fewer are possible.
    `predictive` is asked for, and competes for labels, where it is among `patterns`, or `predictive` says how.
    `measures` are some of `masked-lm`, `next-sentence`, `classifier`, `cls`, by default those that the checkpoint
    has heads for; `labels` say which class each pair is of, for `classifier`.

    Raises: as `classify`; InputError if no pair is left to choose heads by, or to measure them on; SelectionError for
    heads that the model has not got; CaptureError if its heads cannot be switched off.
    """
    measures = listed("measures", measures)
    for name in measures:
        check_known("measure", name, MEASURES)
    check_known("by", by, get_args(By))
    check_number("draws", draws, 2)
    check_number("top", top, 1, optional=True)
    named = heads is not None or singly
    asked = options_of(
        model, {"on_long": "truncate", "predictive": "off" if named else "auto", **without_norm(options, "ablation")}
    )
    competing = (*PATTERNS, *(pattern for pattern in asked.patterns if pattern not in PATTERNS))
    request = AblationRequest(
        patterns=tuple(pattern.id for pattern in asked.patterns),
        heads=None if heads is None else heads_written(heads),
        singly=singly,
        top=top,
        by=by,
        draws=draws,
        measures=tuple(measures),
    )
    predictive = asked_for_labels(asked.predictive, request.patterns)
    read = read_again(pairs, labels)
    with opened(model, tokenizer, replace(asked, patterns=competing, predictive=predictive)) as scanner:
        return ablation.ablate(scanner, read, request)


@checked
def similar(
    pairs: Pairs,
    *,
    queries: int = QUERIES,
    within: float = WITHIN,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Similarity:
    """Which heads attend alike over many sentences or pairs, read one by one, by at most `queries` words of each.

    Heads of one group are on average no farther apart than `within`, in nats. `to_frame()` has the nearest heads of
    each, `to_matrix()` every divergence.

    Raises: as `classify`; OutputError if scikit-learn, which groups the heads, is not installed.
    """
    check_heads_can_be_grouped()
    check_number("queries", queries, 1)
    if not isinstance(within, int | float) or not within >= 0:
        raise OptionError(f"within is {within!r}", "give 0 or more, in nats")
    records = records_of(pairs)
    asked = options_of(model, {"on_long": "truncate", "predictive": "off", **options})
    with opened(model, tokenizer, asked) as scanner:
        return similarity.similar(scanner, records, queries, within)


@checked
def compare(
    model_a: Model,
    model_b: Model,
    pairs: Pairs,
    *,
    match: Match = "place",
    tokenizer_a: Tokenizer = None,
    tokenizer_b: Tokenizer = None,
    **options: Unpack[Choices],
) -> Comparison:
    """What sets the heads of two models apart over the same sentences or pairs. `to_frame()` has a row a head.

    With `match="nearest"` a head is held against the one that attends most alike in place of that of its own place,
    and the pairs are read twice. `predictive` is not compared: each model has its own idea of it. Words are related
    where the embeddings of both models say so, and identical words alone count where the models read other tokens.

    Raises: as `classify`; ModelError if the models' heads cannot be matched.
    """
    check_known("match", match, get_args(Match))
    if options.get("predictive", "off") != "off":
        raise OptionError("predictive is not compared: each model has its own idea of what it is", "leave it out")
    drawn = [pattern for pattern in PATTERNS if pattern.target is not None]
    choices: Choices = {"on_long": "truncate", "patterns": drawn, **options, "predictive": "off"}
    one, other = (options_of(model, choices) for model in (model_a, model_b))
    read = read_again(pairs)
    with opened(model_a, tokenizer_a, one) as scanner, opened(model_b, tokenizer_b, other) as rival:
        return comparison.compare(scanner, rival, read, match)


def _of_many(options: Choices) -> Choices:
    """The options for many pairs: long ones are cut, and heads labelled where all patterns compete."""
    usual: Choices = {"on_long": "truncate", "labelled": "patterns" not in options}
    return {**usual, **options}


def _ranked(
    scanner: Scanner,
    records: Iterable[Record],
    on_bad: OnBad | None = None,
    per_pair: Path | None = None,
    *,
    ids: bool = False,
) -> Ranking:
    """The heads ranked here; `per_pair` is a file for the scores of every pair, with their `ids` if these are there."""
    patterns = [pattern.id for pattern in scanner.options.patterns]
    with nullcontext() if per_pair is None else PerPairWriter(per_pair, patterns, ids=ids) as writer:
        on_pairs = None if writer is None else writer.write
        state = ScanState()
        for after in scan(scanner, records, on_bad=on_bad, on_pairs=on_pairs):
            state = after
        ranking = state.finish(scanner, on_pairs=on_pairs)
        if writer is not None:
            writer.finish(ranking.signature, ranking.scores.grid)
    return replace(ranking, html=ranking_html)
