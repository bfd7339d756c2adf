"""What `import attnscan` offers for many pairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack, get_args

from attnscan.api.given import (
    check_kind,
    check_known,
    checked,
    is_name,
    memory_of,
    options_of,
    paths_of,
)
from attnscan.api.source import Callbacks, OnFrame, OnProgress, Pairs, reading_of, source_of
from attnscan.errors import OptionError
from attnscan.inputs.columns import Quoting
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.results.profile import Profile
from attnscan.results.ranking import Ranking
from attnscan.run.reading import FilePairs
from attnscan.run.requests import Rank
from attnscan.scan.options import Choices, ClusterOptions, ScanOptions
from attnscan.scan.stream import OnBad
from attnscan.views.notebook import ranking_html

Columns = Sequence[str | int] | str | int | None


@checked
def rank_heads(
    pairs: Pairs,
    *,
    columns: Columns = None,
    id: str | int | None = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    on_pairs: OnFrame | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Ranking:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` ranks the heads.

    `label` says what each head does over all of them and `to_labels()` how sure that is; not so where `patterns` are
    chosen, or with `labelled=False`, which takes about a fifth less time.

    Inputs that are longer than the model reads are cut, unless `on_long` says otherwise.

    `pairs` are texts, (text, text), rows with columns, a table, a data set or a loader; `columns` names the one or two
    columns that hold the sentences, `id` one that tells pairs apart. A pair that cannot be read is an error or, with
    `on_bad`, given to it and left out. `on_progress` is called with what runs, how much of it is done, and how much
    there is, or None; `on_pairs` with a data frame of the scores of some pairs as they come, those of `predictive` at
    the end. What such a function raises ends the run, and is raised as it is.

    Raises: as `classify`.
    """
    scored, told = options_of_many(model, options), Callbacks(on_bad, on_progress, on_pairs)
    source = source_of(pairs, columns, id, skip_bad=on_bad is not None)
    memory = memory_of(model, tokenizer, scored)
    ranking: Ranking = told.answer(Rank(source, scored, memory, pair_scores=on_pairs is not None))
    return replace(ranking, html=ranking_html)


@checked
def profile(
    pairs: Pairs,
    *,
    columns: Columns = None,
    id: str | int | None = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    on_pairs: OnFrame | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Profile:
    """What every head does in full, over many sentences or pairs of them, read one by one: `to_frame()` has a row each.

    A head's attention as a sum of simple parts, each with its share, its error, and what stays unexplained. Patterns of
    one's own are parts as well; with `predictive="auto"`, so are the words that help to predict, which takes long,
    since every pair is asked. `rank_files(..., profile=True).profile` is the same over files, or on a cluster.

    `pairs` and the arguments down to `on_pairs` are those of `rank_heads`.

    Raises: as `classify`.
    """
    asked = options_of(model, {"on_long": "truncate", "predictive": "off", **options, "profile": True})
    told, source = Callbacks(on_bad, on_progress, on_pairs), source_of(pairs, columns, id, skip_bad=on_bad is not None)
    memory = memory_of(model, tokenizer, asked)
    ranking: Ranking = told.answer(Rank(source, asked, memory, pair_scores=on_pairs is not None))
    return ranking.known_profile()


@checked
def rank_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    columns: Columns = None,
    header: bool | None = None,
    quoting: Quoting = "auto",
    id: str | int | None = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    on_pairs: OnFrame | None = None,
    per_pair: str | os.PathLike[str] | None = None,
    cluster: ClusterOptions | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Ranking:
    """Every head's scores over the pairs of files, read as `attnscan heads --pairs` reads them; on a Ray cluster, too.

    Without `paths`, over the pairs that attnscan ships. `columns` names the one or two that hold the sentences, `id`
    the one that tells pairs apart. `header` says whether the first line of a table names its columns, and `quoting`,
    `csv` or `none`, whether quotes around cells are the file's; what looks decided and could be wrong is a
    `UserWarning`. A bad record is given to `on_bad` and left out (of a cluster's, the first three);
    without it, it is an error. `on_progress` and `on_pairs` are those of `rank_heads`, which a cluster does not call.
    `per_pair` is a file, on a cluster a new directory, for the scores of every pair as Parquet, with the pair's file
    and row and, if a column is named by `id`, what that says of it.

    Raises: as `classify`; PairsError for a file that cannot be read; OutputError if `per_pair` cannot be written;
    EngineError if the cluster fails.
    """
    scored = options_of_many(model, options)
    names = paths_of(paths)
    if header not in (None, True, False):
        raise OptionError(f"header is {header!r:.60}", "give True, False, or None to tell by its looks")
    check_known("quoting", quoting, get_args(Quoting))
    reading = replace(reading_of(columns, id), header=header, quoting=quoting)
    place = None if per_pair is None else Path(*paths_of([per_pair]))
    told = Callbacks(on_bad, on_progress, on_pairs)
    if cluster is not None:
        check_kind("cluster", cluster, ClusterOptions)
        if on_progress is not None or on_pairs is not None:
            raise OptionError("a cluster does not say how far it is", "leave out on_progress and on_pairs")
        if not names:
            raise OptionError(
                "a cluster reads files, and none is named", "name files that all of its machines can read"
            )
        if not is_name(model):
            raise OptionError("a cluster cannot run a model that is in memory", "save it where all machines find it")
    files, memory = FilePairs(tuple(names), reading, on_bad is not None), memory_of(model, tokenizer, scored)
    wanted = on_pairs is not None
    request = Rank(files, scored, memory, per_pair=place, cluster=cluster, pair_scores=wanted)
    ranking: Ranking = told.answer(request)
    return replace(ranking, html=ranking_html)


def options_of_many(model: Model, options: Choices) -> ScanOptions:
    """The options for many pairs: long ones are cut, and heads labelled where all patterns compete."""
    usual: Choices = {"on_long": "truncate", "labelled": "patterns" not in options}
    return options_of(model, {**usual, **options})
