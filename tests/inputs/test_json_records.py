"""JSON documents are read as JSON says, or refused in one line."""

from __future__ import annotations

import json

import pytest
from pair_files import AB, CD, Make, pairs_in, refusal, skipping

from attnscan.inputs import read as read_module
from attnscan.inputs.sentence import Pair


class TestDocuments:
    @pytest.mark.parametrize(
        ("content", "pairs"),
        [
            ('[{"text1": "a", "text2": "b"}, {"text2": "d", "text1": "c"}]', [AB, CD]),
            ('\ufeff [ {"text1": "a", "text2": "b"} ] \n', [AB]),
            ('[["a", "b"], ["c", "d"]]', [AB, CD]),
            ('["a", "c"]', [Pair("a"), Pair("c")]),
            ('{"text1": "a",\n "text2": "b"}', [AB]),
            ('\ufeff{"text1": "a", "text2": "b"}\n\n{"text1": "c", "text2": "d"}', [AB, CD]),
            ('{"text1": ["a", "c"], "text2": ["b", "d"]}', [AB, CD]),
            ('{"text1": {"0": "a", "1": "c"}, "text2": {"1": "d", "0": "b"}}', [AB, CD]),
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
            ('["a", "b"', "is not valid JSON at character 10: Expecting ',' delimiter"),
            ('{"text": "a",\n"x": 1}\n{"text": "b"}', "is not valid JSON at character 23: Extra data"),
            ("[" * 40_000, "nested too deeply"),
            ("[" + "1" * 5000 + "]", "has a number of more than 4,300 digits"),
            ("[1, 2]", "is not a JSON object"),
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

    def test_columns_are_joined_by_key(self, make: Make) -> None:
        document = '{"text1": {"0": "a", "1": "x", "3": "c"}, "text2": {"3": "d", "2": "y", "0": "b"}}'
        good, bad = skipping(make("p.json", document))
        assert [record.pair for record in good] == [AB, CD]
        assert bad == ["p.json: record 2: sentence B is missing", "p.json: record 4: sentence A is missing"]

    def test_a_text_beyond_the_bound_of_rows(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(read_module, "_MAX_TEXT", 1000)
        good, bad = skipping(make("p.json", json.dumps(["a", "x" * 1001, "c"])))
        assert [record.pair.a for record in good] == ["a", "c"]
        assert bad == ["p.json: record 2: sentence A is longer than 0 MiB"]
