"""What `import attnscan` offers to study heads: how they make their patterns, what they are worth, which are alike.

What it offers to look up stands here, too: the patterns, the models that can run now, and what a checkpoint is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from attnscan.api.arguments import OfAttention, Patterns, library, listed, memory_of, picked, scan_options, text_of
from attnscan.api.many_pairs import File, state_of
from attnscan.api.pairs import Callbacks, OnProgress, Pairs, input_of, pairs_of
from attnscan.errors import OptionError
from attnscan.inputs.option import Option, check_known, check_within
from attnscan.inputs.read import FileReading
from attnscan.inputs.sentence import Pair, Text
from attnscan.model.catalog import Catalog
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.model.sources import Device
from attnscan.results.ablation import Ablation
from attnscan.results.card import Cards
from attnscan.results.checkpoint import Checkpoint
from attnscan.results.comparison import Comparison
from attnscan.results.explanation import Explanations
from attnscan.results.grid import Heads, heads_written
from attnscan.results.similarity import Similarity
from attnscan.results.syntax import Syntax
from attnscan.results.terms import MEASURES, OF_TARGETS, QUERIES, WITHIN, Match
from attnscan.run.reading import FilePairs, OnePair
from attnscan.run.reading import Pairs as ReadPairs
from attnscan.run.requests import Ablate, Compare, Examine, Explain, HoldAgainst, LookAt, Similar
from attnscan.scan.local import OnBad
from attnscan.scan.options import AblationRequest, Engine, OnLong, ScanOptions, asked_for_labels, check_engine
from attnscan.scan.state import ScanState
from attnscan.scoring.patterns import PATTERNS, PatternLike, chosen, pattern_frame
from attnscan.views.notebook import cards_html

if TYPE_CHECKING:
    import pandas as pd


_OF_PREDICTIVE = ("predictive_words", "predictive_pairs")


@library(
    ScanOptions(predictive="off"),
    FileReading(),
    FilePairs(),
    without=("unit", "words", "by", "special", "threshold", *_OF_PREDICTIVE),
    shared=OfAttention,
)
def explain(
    heads: Heads = "all",
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    token: str | None = None,
    pattern: PatternLike | None = None,
    on_long: OnLong = "truncate",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Explanations:
    """How heads make their patterns, by one sentence or pair, or by many pairs. `to_frame()` has a row a head.

    `heads` are `"2-0,6-11"`, `"layer:2"`, `"all"`, or several heads; `["2-0"]` of the result is one's. `pattern` is
    what to explain, by default each head's own label. With a `token` of one input, `to_frame()` has what the heads make
    of every key at that query. Without a sentence, `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads`; SelectionError for heads or a token that are not there.
    """
    named = heads_written(heads)
    of = OfAttention.of(options, named)
    names, every = of.patterns(() if pattern is None else pattern)
    given = input_of(a, b, pairs, options, on_bad=on_bad)
    if token is not None and a is None:
        raise OptionError("a token is of one input", "give its sentence")
    if names == ["predictive"] and of.attention != "encoder":
        raise OptionError("predictive is explained of an encoder's attention", "give another pattern")
    if names == ["predictive"] and (a is None or options["predictive"] == "off"):
        raise OptionError("predictive is explained by one input", 'give its sentence, and predictive="auto"')
    asked = scan_options(model, options, on_long=on_long, patterns=every, **of.scanned)
    asked = asked if a is not None else replace(asked, predictive="off")
    name = names[0] if names else None
    read = of.pair(given) if isinstance(given, Pair) else of.pairs(given)
    request = Explain(read, asked, memory_of(model, tokenizer, asked), named, name, text_of("token", token))
    return Callbacks(on_bad, on_progress).answer(request, Explanations)


@library(ScanOptions(predictive="off"), FileReading(), FilePairs(), shared=OfAttention)
def head(
    heads: Heads,
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    ablate: bool = False,
    treebank: Pairs = None,
    on_long: OnLong = "truncate",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Cards:
    """Everything about a head, or several, by one input or many pairs. `to_frame()` has a row a head.

    `["3-4"]` of the result is one's card. With `ablate`, each head is also switched off, and what the model loses is
    measured over the pairs. With a `treebank`, as `syntax` takes it, each is held against its trees: `["3-4"].syntax`.
    Without a sentence, `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads` and `syntax`; SelectionError for heads that are not there.
    """
    given, named = input_of(a, b, pairs, options, on_bad=on_bad), heads_written(heads)
    of = OfAttention.of(options, named)
    if a is not None and ablate:
        raise OptionError("ablate needs more than one input", "give pairs")
    if treebank is not None and of.attention != "encoder":
        raise OptionError(f"a treebank is not held against {of.attention} attention", "leave it out")
    more = {"labelled": True, "patterns": of.patterns(())[1], **of.scanned}
    asked = scan_options(model, options, on_long=on_long if a is None else "error", **more)
    read = OnePair(of.pair(given)) if isinstance(given, Pair) else of.pairs(given)
    trees = None if treebank is None else _treebank_of(treebank, options, on_bad)
    request = LookAt(read, asked, memory_of(model, tokenizer, asked), named, bool(ablate), trees)
    return replace(Callbacks(on_bad, on_progress).answer(request, Cards), html=cards_html)


@library(
    ScanOptions(),
    FileReading(),
    FilePairs(),
    AblationRequest(),
    without=("heads", *_OF_PREDICTIVE),
    shared=OfAttention,
)
def ablate(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    heads: Heads | None = None,
    measure: Sequence[str] = (),
    labels: Iterable[str] = (),
    on_long: OnLong = "truncate",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Ablation:
    """What a model loses without some heads, beside what it loses without others. `to_frame()` has a row a set.

    The sets are the heads that are labelled with each `pattern` (or at most `top` that are most above chance), found by
    a scan of one half of the pairs and measured on the other; or `heads`, as one set, or with `each` each of these or
    of all heads alone, measured on all pairs. A set's output is put at zero or at its mean, and compared with `draws`
    distinct sets of other heads of the same layers, or with all where fewer are possible. `predictive` is asked for,
    and competes for labels, where it is a `pattern`, or `predictive` says how.
    `measure` is one or some of `masked-lm`, `next-sentence`, `classifier`, `cls`, by default those that the checkpoint
    has heads for; of decoder and cross attention it is `target`. `labels` say which class each pair is of, for
    `classifier`: by default a column `label` does.
    `pairs` and the arguments below them are those of `heads`; a bad pair is told once.

    Raises: as `heads`; InputError if no pair is left to choose heads by, or to measure them on; SelectionError for
    heads that the model has not got; CaptureError if its heads cannot be switched off.
    """
    measures = listed("measure", measure)
    for name in measures:
        check_known("measure", name, (*MEASURES, OF_TARGETS))
    named = None if heads is None else heads_written(heads)
    of = OfAttention.of(options, named)
    names, every = of.patterns(pattern)
    sets = AblationRequest(
        **picked(AblationRequest, options) | {"heads": named}, patterns=tuple(names), measures=tuple(measures)
    )
    if sets.names_heads and (names or sets.top is not None):
        raise OptionError("pattern and top choose heads by a scan", "leave them out, or heads and each")
    by_scan = not sets.names_heads and of.attention == "encoder"
    predictive = asked_for_labels(options["predictive"], names) if by_scan else "off"
    asked = scan_options(model, options, on_long=on_long, predictive=predictive, patterns=every, **of.scanned)
    given = pairs_of(pairs, options, on_bad=on_bad, labels=labels)
    request = Ablate(of.pairs(given), asked, memory_of(model, tokenizer, asked), sets)
    return Callbacks(on_bad, on_progress).answer(request, Ablation)


@library(
    ScanOptions(),
    FileReading(),
    FilePairs(),
    without=("unit", "words", "predictive", *_OF_PREDICTIVE),
    shared=OfAttention,
)
def similar(
    pairs: Pairs = None,
    *,
    queries: int = QUERIES,
    within: float = WITHIN,
    on_long: OnLong = "truncate",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Similarity:
    """Which heads attend alike over many sentences or pairs, by at most `queries` words of each.

    Heads of one group are on average no farther apart than `within`, in nats. `to_frame()` has the nearest heads of
    each, `to_matrix()` every divergence. `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads`; OutputError if scikit-learn, which groups the heads, is not installed.
    """
    check_within("queries", queries, Option("", least=1), whole=True)
    check_within("within", within, Option("in nats"), whole=False)
    of = OfAttention.of(options)
    asked = scan_options(model, options, on_long=on_long, predictive="off", patterns=of.patterns(())[1], **of.scanned)
    given, memory = of.pairs(pairs_of(pairs, options, on_bad=on_bad)), memory_of(model, tokenizer, asked)
    return Callbacks(on_bad, on_progress).answer(Similar(given, asked, memory, queries, within), Similarity)


@library(
    ScanOptions(predictive="off", unit="word", related=False),
    FilePairs(),
    without=("unit", "words", "related", "threshold", "predictive", *_OF_PREDICTIVE),
)
def syntax(
    treebank: Pairs | ScanState,
    *,
    held: Pairs | ScanState = None,
    subtypes: bool = False,
    on_long: OnLong = "error",
    state: File | None = None,
    engine: Engine = "local",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Syntax:
    """Which heads follow which relations of a treebank, beside rules of distance. `to_frame()` has all numbers.

    A treebank is a file in CoNLL-U, or several; or `Sentence`s with words and the tags `upos`, `head` and `deprel`.
    `held` is a second one, in which gains are tested again. With `subtypes`, relations such as `nsubj:pass` have rows
    of their own. `best()` has the best head of each relation, `statements` says what heads do.

    `state` keeps the sums of `treebank`, and `engine` is that of `heads`. Treebanks may also be shards, which
    `shard(..., relations="universal")` makes and `+` adds.

    Raises: as `heads`; InputError if no sentence is left; ModelError if the tokenizer does not tell where its tokens
    stand in the text.
    """
    check_engine(engine)
    if isinstance(treebank, ScanState):
        if model is not None or state is not None:
            raise OptionError("a shard is of its own model, and holds the sums", "leave out model and state")
        return replace(treebank.syntax(), held=None if held is None else _shard_of(held).syntax())
    if treebank is None or isinstance(held, ScanState):
        what = "a treebank, and a second one that is a shard" if treebank is not None else "no treebank"
        raise OptionError(f"there is {what}", "name a .conllu file, or give shards of both")
    asked = scan_options(model, options, on_long=on_long)
    told = Callbacks(on_bad, on_progress)
    trees, others = _treebank_of(treebank, options, on_bad), None
    if held is not None:
        others = _treebank_of(held, options, on_bad)
    memory = memory_of(model, tokenizer, asked)
    request = HoldAgainst(trees, asked, memory, others, None, bool(subtypes), state_of(state))
    return told.answer(request, Syntax)


def _shard_of(held: Any) -> ScanState:
    if not isinstance(held, ScanState):
        raise OptionError("the treebank is a shard, and the second one is none", "give shards of both")
    return held


def _treebank_of(treebank: Pairs, options: Mapping[str, Any], on_bad: OnBad | None) -> ReadPairs:
    """Sentences with trees. Raises: as `pairs_of`."""
    reading = {"columns": None, "header": None, "quoting": "auto", "encoding": None, "skip_bad": options["skip_bad"]}
    return pairs_of(treebank, reading, on_bad=on_bad)


@library(ScanOptions(), FileReading(), FilePairs(), without=("predictive", *_OF_PREDICTIVE), shared=OfAttention)
def compare(
    model_a: Model,
    model_b: Model,
    pairs: Pairs = None,
    *,
    match: Match = "place",
    pattern: Patterns = (),
    on_long: OnLong = "truncate",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    tokenizer_a: Tokenizer = None,
    tokenizer_b: Tokenizer = None,
    **options: Any,
) -> Comparison:
    """What sets the heads of two models apart over the same sentences or pairs. `to_frame()` has a row a head.

    With `match="nearest"` a head is held against the one that attends most alike in place of that of its own place,
    and the pairs are read twice. A `pattern` of your own is compared as well; `predictive` is not: each model has its
    own idea of it. Words are related where the embeddings of both models say so, and identical words alone count where
    the models read other tokens. `pairs` and the arguments below them are those of `heads`; a bad pair is told once.

    Raises: as `heads`; ModelError if the models' heads cannot be matched.
    """
    check_known("match", match, get_args(Match))
    of = OfAttention.of(options)
    names, every = of.patterns(pattern)
    if "predictive" in names:
        raise OptionError(
            "predictive cannot be compared: each model is asked by itself which words predict which", "leave it out"
        )
    compared = tuple(known for known in every if known.target is not None)
    a, b = (
        scan_options(model, options, on_long=on_long, predictive="off", patterns=compared, **of.scanned)
        for model in (model_a, model_b)
    )
    memory = memory_of(model_a, tokenizer_a, a), memory_of(model_b, tokenizer_b, b)
    given = of.pairs(pairs_of(pairs, options, on_bad=on_bad))
    return Callbacks(on_bad, on_progress).answer(Compare(given, (a, b), memory, match), Comparison)


@library()
def patterns(name: str | None = None) -> pd.DataFrame:
    """The seven patterns, a row each, or one of them by its name or letter: what it counts, of which queries and keys.

    Raises: OptionError if there is no such pattern.
    """
    return pattern_frame(PATTERNS if name is None else chosen(name))


@library()
def models(checkpoint: str | None = None, *, device: Device = "auto") -> Catalog | Checkpoint:
    """The models that can run now, or what a `checkpoint` is and what can be scored in it; both have `to_frame()`.

    Raises: ModelError if the checkpoint cannot be loaded.
    """
    if checkpoint is None:
        return Catalog.now()
    return Callbacks().answer(Examine(scan_options(checkpoint, {}, device=device)), Checkpoint)
