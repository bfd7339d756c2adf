"""Loaders of batches, and data sets of Hugging Face -> the pairs and rows that they hold, one by one or in dicts.

Neither torch nor datasets is imported: where they are not loaded there is none of theirs to be read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attnscan.errors import InputError
from attnscan.inputs.columns import Reading, picked

_REMEDY = "let collate_fn give dicts of lists, or give pairs one by one"


def is_loader(thing: object) -> bool:
    """Whether it is a DataLoader of torch that makes batches."""
    of_torch = sys.modules.get("torch.utils.data")
    return of_torch is not None and isinstance(thing, of_torch.DataLoader) and thing.batch_sampler is not None


def is_hugging_face(thing: object) -> bool:
    """Whether it is a data set of Hugging Face, in memory or as a stream."""
    return not isinstance(thing, type) and hasattr(thing, "column_names") and hasattr(thing, "select_columns")


def items_of(loader: Any, reading: Reading) -> Iterator[object]:
    """What the batches of a DataLoader hold: dicts as they are, lists of texts or of pairs item by item.

    What torch makes of pairs by itself, [(a1, a2), (b1, b2)], becomes rows again. Of a `collate_fn` of one's own, lists
    are taken for samples where they are as many as `batch_size` says and cannot be columns as well.

    Raises: InputError for a batch that may be read in two ways.
    """
    of_torch: Any = sys.modules["torch.utils.data"]
    collated_by_torch, sure = loader.collate_fn is of_torch.default_collate, False
    for number, batch in enumerate(loader, 1):
        where = f"batch {number}"
        if not isinstance(batch, list | tuple) or any(isinstance(each, Mapping) for each in batch):
            yield batch
        elif all(isinstance(each, str) for each in batch):
            if not (collated_by_torch or sure or len(batch) == loader.batch_size):
                raise _ambiguous(where, batch, "texts", "sentences, or one pair")
            sure = True
            yield from batch
        elif collated_by_torch:
            yield from _samples(batch, reading)
        else:
            if not sure and (len(batch) != loader.batch_size or len(batch) == 2):
                raise _ambiguous(where, batch, "lists", "pairs, or columns")
            sure = True
            yield from batch


def _ambiguous(where: str, batch: Sequence[object], what: str, either: str) -> InputError:
    return InputError(f"{where} is a {type(batch).__name__} of {len(batch)} {what}, which may be {either}", _REMEDY)


def _samples(columns: Sequence[Any], reading: Reading) -> Iterator[Sequence[object]]:
    """Samples again, which torch has turned into columns. What is no text is left out where nothing is asked for."""
    if hasattr(columns, "_fields"):
        return map(type(columns)._make, zip(*columns, strict=True))  # type: ignore[attr-defined]
    texts = [column for column in columns if isinstance(column, list | tuple)]
    return zip(*(columns if reading.columns is not None or not texts else texts), strict=True)


def only(thing: Any, reading: Reading) -> Iterable[object]:
    """A data set of Hugging Face, less the columns that are not read: an image need not be decoded.

    Raises: PairsError if it has not the columns.
    """
    kind = (getattr(thing, "format", None) or {}).get("type")
    if kind == "custom" or thing.column_names is None:  # a function makes its rows: their columns are known by then
        return thing  # type: ignore[no-any-return]
    names = list(thing.column_names)
    plain = thing if kind is None else thing.with_format(None)
    return plain.select_columns([names[at] for at in picked(reading, names, True).indexes])  # type: ignore[no-any-return]
