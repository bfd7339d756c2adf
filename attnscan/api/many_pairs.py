"""What `import attnscan` offers for many pairs: heads ranked, labelled and described in full, here or in shards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, overload

from attnscan.api.arguments import (
    OfAttention,
    Patterns,
    check_kind,
    file_of,
    is_name,
    library,
    memory_of,
    scan_options,
)
from attnscan.api.one_input import Weights, classify
from attnscan.api.pairs import Callbacks, OnFrame, OnProgress, Pairs, input_of, pairs_of
from attnscan.errors import OptionError
from attnscan.inputs.option import check_known
from attnscan.inputs.read import FileReading
from attnscan.inputs.sentence import Pair, Text
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.model.loaded import LoadedModel
from attnscan.model.sources import Device, Dtype
from attnscan.results.classification import Classification
from attnscan.results.files import local_path
from attnscan.results.kinds import OfKinds
from attnscan.results.profile import Profile
from attnscan.results.ranking import Ranking
from attnscan.run.reading import FilePairs, Ledger, OnePair
from attnscan.run.reading import Pairs as ReadPairs
from attnscan.run.requests import FinishShard, Load, MakeShard, Rank
from attnscan.scan.local import OnBad
from attnscan.scan.options import Engine, OnLong, Relations, ScanOptions, check_engine
from attnscan.scan.state import ScanState
from attnscan.scoring.patterns import Pattern
from attnscan.views.notebook import ranking_html

File = str | os.PathLike[str]
_ONE_KIND = 'give attention="encoder", "decoder" or "cross"'


@overload
def heads(pairs: Pairs = None, *, attention: Literal["all"], **options: Any) -> OfKinds[Ranking]: ...
@overload
def heads(pairs: Pairs = None, **options: Any) -> Ranking: ...
@library(ScanOptions(), FileReading(), FilePairs(), shared=OfAttention)
def heads(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    split: bool = False,
    on_long: OnLong = "truncate",
    id: str | int | None = None,
    state: File | None = None,
    per_pair: File | None = None,
    engine: Engine = "local",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    on_pairs: OnFrame | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Ranking | OfKinds[Ranking]:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` has a row a head.

    `label` says what each head does over all of them. Where some patterns are chosen, there are no labels, which takes
    about a fifth less time, and `to_frame()` ranks the heads for each pattern, as `to_frame([pattern])` does. `profile`
    says where every head's attention goes.

    `pairs` are a file or several, as `attnscan heads --pairs` reads them; or texts, (text, text), rows with columns, a
    data frame, a data set or a loader; without them, the pairs that attnscan ships. `columns` names the one or two
    columns that hold the sentences, `id` one that tells pairs apart. What a file's looks decide and could be wrong is a
    `UserWarning`. A pair that cannot be read is an error or, with `skip_bad` or `on_bad`, which is given it, left out.
    `on_progress` is called with what runs, how much of it is done, and how much there is, or None; `on_pairs` with a
    data frame of the scores of some pairs as they come, those of `predictive` at the end. What such a function raises
    ends the run, and is raised as it is.

    Of an encoder-decoder, `attention` names what is read, and B is the target, which the model writes where it is
    missing; `alignments` are gold links such as "0-0 1-2", a line a pair, or a file of these.
    With "all", the result is a mapping of kind to `Ranking`, whose `to_frame()` has the rows of all.

    `state` is a file that keeps the sums, and that the same call goes on from; `per_pair` one for every pair's scores.

    Raises: as `classify`; PairsError for a file that cannot be read; StateError, OutputError for files that cannot be
    gone on from or written; EngineError for `engine="ray"`.
    """
    check_engine(engine)
    told = Callbacks(on_bad, on_progress, on_pairs)
    of = OfAttention.of(options, takes_all=True)
    given: ReadPairs = pairs_of(pairs, options, id=id, on_bad=on_bad)

    def ranked(of: OfAttention) -> Ranking:
        names, every = of.patterns(pattern)
        more = {"split": split, "on_long": on_long, **of.scanned}
        scored = _ranked_options(model, options, names, every, **more)
        request = Rank(
            of.pairs(given),
            scored,
            memory_of(model, tokenizer, scored),
            state=state_of(state),
            per_pair=file_of("per_pair", per_pair),
            pair_scores=on_pairs is not None,
        )
        return replace(told.answer(request, Ranking), html=ranking_html)

    if of.attention != "all":
        return ranked(of)
    if state is not None or per_pair is not None:
        raise OptionError("a state and a file of pairs' scores are of one kind of attention", _ONE_KIND)
    given = given.ready(Ledger(), 3, f"name a file, or {_ONE_KIND}")
    return OfKinds({kind: ranked(own) for kind, own in of.kinds().items()})


def state_of(state: File | None) -> Path | None:
    """A state file. Raises: OptionError, OutputError for what is none."""
    if state is None or file_of("state", state) is None:
        return None
    return local_path(os.fspath(state))


def _ranked_options(
    model: Model, options: Mapping[str, Any], names: Sequence[str], every: Sequence[Pattern], **more: Any
) -> ScanOptions:
    """What is scored of many pairs: some patterns, or all, by which heads are then labelled. Raises: OptionError."""
    scored = tuple(known for known in every if not names or known.id in names)
    return scan_options(model, options, labelled=not names, patterns=scored, **more)


@library(
    ScanOptions(predictive="off"),
    FileReading(),
    FilePairs(),
    without=("predictive", "predictive_words", "predictive_pairs", "threshold"),
    shared=OfAttention,
)
def profile(
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    pattern: Patterns = (),
    on_long: OnLong = "truncate",
    id: str | int | None = None,
    state: File | None = None,
    engine: Engine = "local",
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    on_pairs: OnFrame | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Profile:
    """Where every head's attention goes, on one input, by saved `weights` or over many pairs: `to_frame()` has a row
    for each class of keys of each head.

    A word's attention is divided without remainder over classes, such as the next word or punctuation. A `pattern` of
    your own stands beside them.

    Without a sentence, `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads`; WeightsError if weights are of too many heads.
    """
    check_engine(engine)
    of = OfAttention.of(options)
    _, every = of.patterns(pattern)
    asked = scan_options(model, options, on_long=on_long, labelled=True, patterns=every, **of.scanned)
    told, memory = Callbacks(on_bad, on_progress, on_pairs), memory_of(model, tokenizer, asked)
    if weights is not None:
        if a is not None or pairs is not None:
            raise OptionError("weights are of one input", "leave out the sentences and pairs")
        reading = {"by": asked.by, "special": asked.special, "attention": options["attention"]}
        alone: Classification = classify(weights=weights, pattern=pattern, keep_attention=False, **reading)
        return alone.profile
    given = input_of(a, b, pairs, options, id=id, on_bad=on_bad)
    read = OnePair(of.pair(given)) if isinstance(given, Pair) else of.pairs(given)
    request = Rank(read, asked, memory, state_of(state), pair_scores=on_pairs is not None)
    return told.answer(request, Ranking).profile


@library()
def load(
    model: Model = None, *, tokenizer: Tokenizer = None, device: Device = "auto", dtype: Dtype = "auto"
) -> LoadedModel:
    """A model to be given as `model` to any number of calls, each with options of its own, and loaded only now.

    Threads may share it: their calls run one after another.

    Raises: as `classify`.
    """
    asked = scan_options(model, {}, device=device, dtype=dtype)
    return Callbacks().answer(Load(asked, memory_of(model, tokenizer, asked)), LoadedModel)


@library(ScanOptions(), FileReading(), FilePairs(), shared=OfAttention)
def shard(
    pairs: Pairs,
    *,
    pattern: Patterns = (),
    split: bool = False,
    on_long: OnLong = "truncate",
    relations: Relations | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> ScanState:
    """What some sentences or pairs of them add to a ranking: shards add with `+` or `sum`, and `finish` ranks.

    Whatever the pairs are split into, in whatever order they are added, the result is that of `heads` over all of them,
    which has the same options; so `shard([])` adds nothing. Its size does not grow with the pairs, and it can be
    pickled. What is unpickled runs code: take pickles from your own machines alone.

    With `relations`, "universal" or "subtypes", `pairs` are a treebank, and `syntax` takes the sum in place of one.

    Raises: as `heads` and `syntax`; EngineError when shards of different models, options or versions are added.
    """
    of = OfAttention.of(options)
    if relations is None:
        names, every = of.patterns(pattern)
        more = {"split": split, "on_long": on_long, **of.scanned}
        asked = _ranked_options(model, options, names, every, **more)
    else:
        if pattern or split or of.attention != "encoder":
            raise OptionError("a treebank is scored by relations", "leave out pattern, attention and split")
        check_known("relations", relations, get_args(Relations))
        asked = scan_options(model, options, on_long=on_long, **of.scanned).of_trees(subtypes=relations == "subtypes")
    given = of.pairs(pairs_of(pairs, options, on_bad=on_bad))
    request = MakeShard(given, asked, memory_of(model, tokenizer, asked))
    return Callbacks(on_bad).answer(request, ScanState)


@library()
def finish(shard: ScanState, *, model: Model = None, tokenizer: Tokenizer = None) -> Ranking:
    """The ranking of all pairs that the shard is made of, as `heads` gives it.

    If `predictive` was not "off", a sample of all pairs is asked for it now, by `model`, which is the shard's own: by
    its name unless it is given. Otherwise no model is needed.

    Raises: as `classify`; InputError if no pair was scored; EngineError if the model is another one.
    """
    check_kind("shard", shard, ScanState)
    if not shard.asks:
        return replace(shard.ranking(), html=ranking_html)
    if model is None and (model := shard.options.model) is None:
        raise OptionError("the shard is of a model that was in memory", "give it again, as model, with its tokenizer")
    options = replace(shard.options, model=os.fspath(model) if isinstance(model, str | os.PathLike) else None)
    if not is_name(model):
        options = replace(options, device="auto", dtype="auto")
    request = FinishShard(shard, options, memory_of(model, tokenizer, options))
    return replace(Callbacks().answer(request, Ranking), html=ranking_html)
