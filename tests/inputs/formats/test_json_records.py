"""JSON documents are read as JSON says, piece by piece and in bounded memory, or refused in one line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from draws import draws
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pair_files import AB, CD, Make, pairs_in, refusal, skipping

from attnscan.inputs.formats import json_records, lines
from attnscan.inputs.formats.lines import Lines
from attnscan.inputs.pairs import Pair, read_pairs

rounds = settings(deadline=None, max_examples=draws(60))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=9,
)


class Pieces:
    """A stream that gives a few bytes at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._size, self._at = content, size, 0

    def read(self, _: int) -> bytes:
        self._at += self._size
        return self._content[self._at - self._size : self._at]


class TestDocuments:
    @rounds
    @given(items=st.lists(values, max_size=5), size=st.integers(1, 9), indent=st.sampled_from([None, 1]))
    @example(items=[0.5, -1e-05, 12], size=1, indent=None)
    def test_any_list_is_read_however_it_comes(self, items: list[object], size: int, indent: int | None) -> None:
        content = json.dumps(items, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
        try:
            content.decode()
        except UnicodeDecodeError:
            return
        document = Lines(Pieces(content, size), "p.json")  # type: ignore[arg-type]
        assert list(json_records._Document(document).records()) == items

    @pytest.mark.parametrize(
        ("content", "pairs"),
        [
            ('[{"text1": "a", "text2": "b"}, {"text2": "d", "text1": "c"}]', [AB, CD]),
            ('\ufeff [ {"text1": "a", "text2": "b"} ] \n', [AB]),
            ('[["a", "b"], ["c", "d"]]', [AB, CD]),
            ('["a", "c"]', [Pair("a"), Pair("c")]),
            ('{"text1": "a",\n "text2": "b"}', [AB]),
            ('{"text1": "a",\n "text2": "b"}\n{"text1": "c",\n "text2": "d"}\n', [AB, CD]),
            ('{"text1": "a", "text2": "b"}\n\n{"text1": "c", "text2": "d"}', [AB, CD]),
            ('{"text1": ["a", "c"], "text2": ["b", "d"]}', [AB, CD]),
            ('{"n": 1, "rows": [{"text": "a"}]}', [Pair("a")]),
            ("[]", []),
        ],
    )
    def test_every_layout(self, make: Make, content: str, pairs: list[Pair]) -> None:
        assert pairs_in(make("p.json", content)) == pairs

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            ("", "is empty"),
            ('["a", "b"', "at character 11"),
            ('[{"text": "a"}, {"text": "b"', "at character 29"),
            ('[{"text": "a"} {"text": "b"}]', "at character 17: a comma or the end of the list is expected"),
            ('[{"text": "a"}] x', "at character 17: something follows its end"),
            ("[" * 40_000, "nested too deeply"),
            ("[" + "1" * 5000 + "]", "Exceeds the limit"),
            (b'[{"text": "\xff"}]', "is not valid UTF-8"),
            ("[1, 2]", "is not a JSON object"),
            ('[{"x": "a", "y": "b"}]', "the columns are 'x', 'y'"),
            (b"\x1f\x8b[]", "is gzip"),
        ],
    )
    def test_refused(self, make: Make, content: str | bytes, why: str) -> None:
        assert why in refusal(make("p.json", content)).what

    def test_bad_records_are_left_out(self, make: Make) -> None:
        good, bad = skipping(make("p.json", '[{"text": "a"}, {}, {"text": null}, "x", {"text": "c"}]'))
        assert [(record.pair.a, record.place.row) for record in good] == [("a", 1), ("c", 5)]
        assert bad == [
            "p.json: record 2: has no field 'text'",
            "p.json: record 3: sentence A is missing",
            "p.json: record 4: is not a JSON object",
        ]

    def test_one_record_at_a_time_is_held(self, tmp_path: Path) -> None:
        record = json.dumps({"text": "x" * 400})
        path = tmp_path / "p.json"
        path.write_text(f"[{','.join([record] * 40_000)}]")
        tracemalloc.start()
        assert sum(1 for _ in read_pairs([str(path)])) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 48 << 20  # a line of it, as of any text
        tracemalloc.stop()

    def test_a_record_beyond_the_bound(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (json_records, lines):
            monkeypatch.setattr(module, "MAX_BYTES", 1 << 18)
        assert "a record is longer" in refusal(make("p.json", '["a", "' + "x" * (1 << 20) + '"]')).what
