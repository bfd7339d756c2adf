"""What programs have as pairs is read as it is meant, or refused in a line."""

from __future__ import annotations

import io
from collections import UserDict, namedtuple
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from attnscan.errors import AttnscanError, InputError
from attnscan.inputs.records import FileReading, objects_in
from attnscan.inputs.sentence import Record

A = ["I went home.", "You sing well.", "A cat sat."]
B = ["He went home.", "You sing.", "The cat sat."]
PAIRS = list(zip(A, B, strict=True))
FRAME = pd.DataFrame({"idx": [7, 8, 9], "sentence1": A, "sentence2": B, "label": [0, 1, 0]})
ROWS: list[dict[str, Any]] = FRAME.to_dict("records")  # type: ignore[assignment]
Named = namedtuple("Named", "premise hypothesis")


class HuggingFace:
    """What a data set of Hugging Face does, as far as it is asked."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows
        self.column_names = list(rows[0])

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        assert "image" not in self.column_names, "an image is decoded when its row is read"
        return iter(self._rows)

    def with_format(self, _format: None) -> HuggingFace:
        return self

    def select_columns(self, names: Sequence[str]) -> HuggingFace:
        return HuggingFace([_cells(row, names) for row in self._rows])


def _cells(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def records(pairs: Any, *columns: str, **reading: Any) -> list[Record]:
    return list(objects_in(pairs, FileReading(columns or None, **reading)).records())


def texts(pairs: Any, *columns: str) -> list[tuple[str, ...]]:
    return [record.pair.texts for record in records(pairs, *columns)]


def refused(pairs: Any, *columns: str, **reading: Any) -> str:
    """The line that says what is wrong."""
    with pytest.raises(InputError) as caught:
        records(pairs, *columns, **reading)
    assert caught.value.remedy and len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def skipping(pairs: Any) -> tuple[list[tuple[int, str]], list[str]]:
    bad: list[InputError] = []
    good = [(record.place.row, record.pair.a) for record in objects_in(pairs).records(bad.append)]
    return good, [error.what for error in bad]


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        iter(PAIRS),
        [list(pair) for pair in PAIRS],
        pd.Series(PAIRS),
        np.array(PAIRS),
        FRAME,
        FRAME.set_index("label"),  # two rows of one index
        FRAME.astype({"sentence1": "category"}),
        FRAME.astype({"sentence1": "string[pyarrow]", "sentence2": "string[python]"}),
        FRAME.itertuples(),
        [Named(*pair) for pair in PAIRS],
        (row for _, row in FRAME.iterrows()),
        (FRAME[start : start + 2] for start in (0, 2)),
        ROWS,
        [UserDict(row) for row in ROWS],
        FRAME.to_dict("list"),
        {name: FRAME[name].to_numpy() for name in FRAME},
        pa.Table.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME).to_reader(max_chunksize=1),
        DataLoader(ROWS, batch_size=None),  # type: ignore[arg-type]
        HuggingFace([{**row, "image": b"..."} for row in ROWS]),
        pa.array(ROWS),
    ],
    ids=lambda pairs: type(pairs).__name__,
)
def test_pairs_of_every_kind(pairs: Any) -> None:
    assert texts(pairs) == PAIRS


@pytest.mark.parametrize(
    "pairs",
    [
        A,
        [(a,) for a in A],
        pd.Series(A),
        np.array(A),
        pa.array(A),
        [{"text": a} for a in A],
        pd.DataFrame({"anything": A}),
        {"sentence": A, "tokens": [[1], [2], [3]]},
    ],
    ids=lambda pairs: type(pairs).__name__,
)
def test_sentences_of_every_kind(pairs: Any) -> None:
    assert texts(pairs) == [(a,) for a in A]


def test_data_sets_of_hugging_face() -> None:
    data = HuggingFace(ROWS)
    assert objects_in(data).total == 3 and texts(data, "sentence2") == [(b,) for b in B]
    read = records(data, id="label", labelled=True)
    assert [(record.place.id, record.label, record.place.row) for record in read][2] == (
        "0",
        "0",
        3,
    )


class TestColumns:
    def test_by_name_and_by_number(self) -> None:
        for pairs, column in (
            (FRAME, "sentence2"),
            (ROWS, "3"),
            (FRAME.to_dict("list"), " SENTENCE2"),
        ):
            assert texts(pairs, column) == [(b,) for b in B]
        assert texts([(1, *pair) for pair in PAIRS], "2", "3") == PAIRS
        assert texts(FRAME.itertuples(), "sentence2", "sentence1") == [(b, a) for a, b in PAIRS]
        assert (
            texts(FRAME.set_axis([0, 1, 2, 3], axis=1), "1", "2") == PAIRS
        )  # names before numbers
        assert texts(pd.concat([FRAME, FRAME], axis=1), "2", "3") == PAIRS

    def test_within_others(self) -> None:
        rows = [
            {"id": {"n": n}, "translation": {"de": a, "en": b}} for n, (a, b) in enumerate(PAIRS)
        ]
        frame = pd.DataFrame(rows)
        columns = frame.to_dict("list")
        for pairs in (rows, iter(rows), columns, frame, pa.Table.from_pylist(rows)):
            read = records(pairs, "translation.de", "translation.en", id="id.n")
            assert [(record.place.id, record.pair.texts) for record in read] == [
                *zip("012", PAIRS, strict=True)
            ]
        assert "row 1: sentence A is missing" in refused(rows, "translation.fr")

    def test_items_of_lists_are_counted_from_one(self) -> None:
        rows = [{"pair": list(pair), "n": 7} for pair in PAIRS]
        assert texts(rows, "pair.1", "pair.2") == PAIRS
        assert texts(rows, "pair.2") == [(b,) for b in B]
        for column in ("pair.3", "pair.0", "pair.x", "n.1"):
            assert "row 1: sentence A is missing" in refused(rows, column)

    def test_ids_and_labels_come_along(self) -> None:
        renamed = FRAME.rename(columns={"label": "gold_label"})
        for pairs in (FRAME, renamed, ROWS, iter(ROWS), pa.Table.from_pandas(FRAME)):
            read = records(pairs, id="idx", labelled=True)
            rows = [(record.place.row, record.place.id, record.label) for record in read]
            assert rows == [(1, "7", "0"), (2, "8", "1"), (3, "9", "0")]
            assert read[1].where == "row 2" and read[1].place.file == ""
        assert [record.place.id for record in records([("x", *PAIRS[0])], "2", "3", id="1")] == [
            "x"
        ]


class TestBadRecords:
    def test_rows_keep_their_numbers(self) -> None:
        frame = pd.DataFrame(
            {"text": ["a", np.nan, None, pd.NA, " ", "b\0", 5, b"x", pd.NaT, "c"]}, dtype=object
        )
        good, bad = skipping(frame)
        assert good == [(1, "a"), (10, "c")]
        assert bad == [
            *(f"row {number}: sentence A is missing" for number in (2, 3, 4)),
            "row 5: sentence A is empty",
            "row 6: sentence A has a NUL character",
            "row 7: sentence A is of the class int, and not text",
            "row 8: sentence A is of the class bytes, and not text",
            "row 9: sentence A is missing",
        ]
        assert skipping(frame.to_dict("records")) == skipping(frame.to_dict("list")) == (good, bad)
        assert refused(frame) == f"{bad[0]}; correct it, or pass skip_bad to go on without it"

    def test_a_missing_b_is_no_single_sentence(self) -> None:
        frame = FRAME.assign(sentence2=["x", None, "z"])
        assert skipping(frame) == ([(1, A[0]), (3, A[2])], ["row 2: sentence B is missing"])
        assert skipping([(A[0], float("nan")), A[1]]) == (
            [(2, A[1])],
            ["row 1: sentence B is missing"],
        )

    def test_of_pairs_and_dicts(self) -> None:
        good, bad = skipping(
            [A[0], (), ("a", "b", "c"), None, ["x", ["y"]], {"text": "t"}, {"sentence": "u"}]
        )
        assert good == [(1, A[0]), (6, "t")]
        assert bad == [
            "row 2: it has 0 cells, where one or two sentences are expected",
            "row 3: it has 3 cells, where one or two sentences are expected",
            "row 4: it is no text, list or object",
            "row 5: sentence B is of the class list, and not text",
            "row 7: sentence A is missing",
        ]


@pytest.mark.parametrize(
    "pairs",
    [
        None,
        5,
        "abc",
        Path("abc"),
        io.StringIO("abc"),
        dict,
        np.array("x"),
        np.zeros((1, 2, 3)),
        object(),
    ],
)
def test_what_holds_no_pairs_is_refused_at_once(pairs: Any) -> None:
    with pytest.raises(
        InputError,
        match=f"pairs is of the class {type(pairs).__name__}, which holds no pairs; give",
    ):
        objects_in(pairs)


@pytest.mark.parametrize(
    ("pairs", "columns", "why"),
    [
        (FRAME, ["premise"], "there is no column 'premise'; the columns are 'idx', 'sentence1'"),
        (ROWS, ["premise"], "row 1: there is no column 'premise'; the columns are"),
        (FRAME[["idx", "label"]], [], "none is known to hold sentences"),
        (PAIRS, ["3"], "row 1: there is no column '3'; the columns are '1', '2'"),
        (A, ["text"], "there is no column 'text'; the columns are '1'"),
        (HuggingFace([{"x": "a", "y": "b"}]), [], "the columns are 'x', 'y'"),
        ({"train": HuggingFace(ROWS)}, [], "which holds splits; choose one: ['train']"),
        ({"sentence1": "a", "sentence2": "b"}, [], "no table: If using all scalar values"),
        ({}, [], "the columns are none"),
        (
            {"sentence1": ["a"], "sentence2": ["b", "c"]},
            [],
            "no table: All arrays must be of the same length",
        ),
        ([["a", "b", "c"], ["d", "e", "f"]], [], "it has 3 cells"),
        ([PAIRS[:2]], [], "sentence A is of the class tuple"),
        ([{"text": ["a", "word", "each"]}], [], "sentence A is of the class list"),
        ([{"text": {"en": "a"}}], [], "sentence A is of the class dict, and not text"),
        (["\ud800"], [], "sentence A is not valid Unicode"),
        ([FRAME, PAIRS[0]], [], "row 4: it is no data frame, as what came before it is"),
        (FRAME.groupby("label"), [], "sentence A is"),
        (DataLoader(A, batch_size=2), [], "which holds no pairs"),  # type: ignore[arg-type]
    ],
)
def test_missing_columns_and_ambiguous_objects_are_refused(
    pairs: Any, columns: list[str], why: str
) -> None:
    assert why in refused(pairs, *columns)


KEYS = st.sampled_from(["sentence1", "sentence2", "text", "label", "x", 0, ""])
LEAVES: st.SearchStrategy[Any] = st.text(max_size=3) | st.sampled_from(
    [
        None,
        np.nan,
        pd.NA,
        np.int64(1),
        b"x",
        "\0",
        "\ud800",
        " ",
        "the cat",
        object,
        range(2),
        np.zeros(2),
    ]
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    rows = st.lists(st.dictionaries(KEYS, inner, max_size=3), max_size=3)
    series = some.map(partial(pd.Series, dtype=object))
    frames = rows.map(partial(pd.DataFrame, dtype=object))
    return some | some.map(iter) | st.dictionaries(KEYS, some, max_size=3) | rows | series | frames


@given(
    pairs=st.recursive(LEAVES, _nested, max_leaves=12),
    columns=st.none() | st.sampled_from([("text",), ("1", "x")]),
)
def test_whatever_comes_is_read_or_refused_in_a_line(
    pairs: Any, columns: tuple[str, ...] | None
) -> None:
    bad: list[AttnscanError] = []
    try:
        for record in objects_in(pairs, FileReading(columns)).records(bad.append):
            assert all(isinstance(text, str) for text in record.pair.texts)
    except AttnscanError as error:
        bad.append(error)
    assert all(error.remedy and len(str(error).splitlines()) == 1 for error in bad)


def test_how_many_there_are_is_told_where_that_is_known() -> None:
    for pairs in (
        PAIRS,
        FRAME,
        ROWS,
        FRAME.to_dict("list"),
        pd.Series(A),
        pa.Table.from_pandas(FRAME),
    ):
        assert objects_in(pairs).total == 3
    assert objects_in(iter(PAIRS)).total is None


class WithClasses(HuggingFace):
    """A data set that knows the names of its classes."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.features = {"label": SimpleNamespace(names=["no", "yes"]), "sentence1": None}

    def select_columns(self, names: Sequence[str]) -> WithClasses:
        return WithClasses([_cells(row, names) for row in self._rows])


def test_labels_of_a_data_set_of_hugging_face_have_names() -> None:
    read = records(WithClasses(ROWS), labelled=True)
    labels = [(record.label, record.class_number) for record in read]
    assert labels == [("no", 0), ("yes", 1), ("no", 0)]
