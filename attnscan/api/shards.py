"""What `import attnscan` offers to load a model once, and to spread a scan over a cluster of one's own."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from attnscan.api.arguments import Patterns, check_kind, is_name, library, memory_of, scan_options
from attnscan.api.many_pairs import ranked_options
from attnscan.api.pairs import Callbacks, Pairs, pairs_of
from attnscan.errors import OptionError
from attnscan.inputs.columns import FileReading
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.model.loaded import LoadedModel
from attnscan.model.sources import Device, Dtype
from attnscan.results.ranking import Ranking
from attnscan.run.reading import FilePairs
from attnscan.run.requests import FinishShard, Load, MakeShard
from attnscan.scan.options import OnLong, ScanOptions
from attnscan.scan.state import ScanState
from attnscan.scan.stream import OnBad
from attnscan.views.notebook import ranking_html


@library()
def load(
    model: Model = None, *, tokenizer: Tokenizer = None, device: Device = "auto", dtype: Dtype = "auto"
) -> LoadedModel:
    """A model to be given as `model` to any number of calls, each with options of its own, and loaded only now.

    Threads may share it: their calls run one after another.

    Raises: as `classify`.
    """
    asked = scan_options(model, {}, device=device, dtype=dtype)
    loaded: LoadedModel = Callbacks().answer(Load(asked, memory_of(model, tokenizer, asked)))
    return loaded


@library(ScanOptions(), FileReading(), FilePairs())
def shard(
    pairs: Pairs,
    *,
    pattern: Patterns = (),
    split: bool = False,
    on_long: OnLong = "truncate",
    profile: bool = False,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> ScanState:
    """What some sentences or pairs of them add to a ranking: shards add with `+` or `sum`, and `finish` ranks.

    Whatever the pairs are split into, in whatever order they are added, the result is that of `heads` over all of them,
    which has the same options; so `shard([])` adds nothing. Its size does not grow with the pairs, and it can be
    pickled. What is unpickled runs code: take pickles from your own machines alone.

    Raises: as `heads`; EngineError when shards of different models, options or versions are added.
    """
    asked = ranked_options(model, options, pattern, split=split, on_long=on_long, profile=profile)
    request = MakeShard(pairs_of(pairs, options, on_bad=on_bad), asked, memory_of(model, tokenizer, asked))
    made: ScanState = Callbacks(on_bad).answer(request)
    return made


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
    ranking: Ranking = Callbacks().answer(request)
    return replace(ranking, html=ranking_html)
