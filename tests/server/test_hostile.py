"""Hostile bodies by the hundred: each is an answer or one line of JSON, and the server goes on as before."""

from __future__ import annotations

import json
import random
from typing import Any

from live import TOKEN, asked, body_of
from starlette.applications import Starlette

from attnscan.text import plain

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 10**400, 1.5, 1e308, -0.0, [], {}, [[]], [None], [0] * 5000, "", " ", "\x00"),
    *("\x1b]0;mine\x07", "\u202e", "\ufeff", "\ud800", "x" * 70_000, "[CLS] [SEP]", "</script>", "../../etc/passwd"),
)
FIELDS = ("a", "b", "hidden", "positions", "segments", "off", "model", "path", "__class__")


def body(draw: random.Random) -> bytes:
    """Fields of wrong kinds, and JSON that is whole, cut, changed by bytes, or opened and never closed."""
    fields = json.loads(body_of(b="a dog", hidden=[1], off=["2-0"]))
    fields |= {draw.choice(FIELDS): draw.choice(VALUES) for _ in range(draw.randrange(4))}
    whole = json.dumps(fields, ensure_ascii=draw.random() < 0.5).encode(errors="surrogatepass")
    changed = bytearray(whole)
    for _ in range(draw.randrange(1, 9)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    opened = draw.choice([b"[", b'{"a":', b'"\\u', b"\xff\xfe", b"-", b"1e"]) * draw.randrange(1, 10_000)
    return draw.choice([whole, whole, whole[: draw.randrange(len(whole) + 1)], bytes(changed), opened])


def test_hostile_bodies(app: Starlette) -> None:
    found = set()
    for seed in range(200):
        answer = asked(app, f"/{TOKEN}/answer", body(random.Random(seed)))
        assert answer.headers["content-type"] == "application/json" and answer.body.isascii(), (seed, answer)
        found.add(answer.status)
        if answer.status != 200:
            said = answer.json["error"]
            assert list(answer.json) == ["error"] and 0 < len(said) < 500 and plain(said) == said, (seed, said)
    assert found == {200, 400, 413, 422}
    assert asked(app, f"/{TOKEN}/answer", body_of()).status == 200
