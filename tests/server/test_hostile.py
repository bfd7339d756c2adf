"""Ten thousand hostile bodies: each is an answer or one line of JSON, and the server goes on as before."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from live import TOKEN, StandIn, asked, body_of
from starlette.applications import Starlette

from attnscan.safe_text import plain

STATUSES = (200, 400, 413, 422)
TEXTS = (
    *("", " ", "\x00", "\x1b]0;mine\x07", "\u202e", "\ufeff", "\ud800", "x" * 70_000, "[CLS] [SEP] [MASK]", "a\nb"),
    *("</script>", "{{7*7}}", "../../etc/passwd", "bert-base-uncased", "__proto__", "constructor", "😀" * 500, "0-0"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 10**400, 1.5, 1e308, -0.0, [], {}, [[]], [None], [0] * 5000),
    *TEXTS,
)
FIELDS = ("a", "b", "hidden", "positions", "segments", "off", "model", "path", "__class__")


def body(draw: random.Random) -> bytes:
    """One of several kinds: fields of wrong kinds, JSON that is cut or changed by bytes, and noise."""
    fields = json.loads(body_of(b="a dog", hidden=[1], off=["2-0"]))
    for _ in range(draw.randrange(4)):
        fields[draw.choice(FIELDS)] = _value(draw)
    if draw.random() < 0.2:
        fields.pop(draw.choice(list(fields)))
    whole = json.dumps(fields, ensure_ascii=draw.random() < 0.5).encode(errors="surrogatepass")
    kind = draw.randrange(5)
    if kind == 0:
        return whole[: draw.randrange(len(whole) + 1)]
    if kind == 1:
        changed = bytearray(whole)
        for _ in range(draw.randrange(1, 9)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return bytes(changed)
    if kind == 2 and draw.random() < 0.2:
        return draw.randbytes(draw.randrange(150))
    if kind == 3 and draw.random() < 0.2:
        opening = draw.choice([b"[", b'{"a":', b'{"hidden":[', b'"\\u', b"\xff\xfe", b"-", b"1e"])
        return opening * draw.randrange(1, 12_000)
    return whole


def _value(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(8)
    if kind == 0 and depth < 4:
        return [_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 1 and depth < 4:
        return {draw.choice(FIELDS): _value(draw, depth + 1) for _ in range(draw.randrange(3))}
    if kind == 2:
        return draw.randrange(-(2**70), 2**70)
    if kind == 3:
        return "".join(chr(draw.choice([draw.randrange(0x20), draw.randrange(0x110000)])) for _ in range(8))
    return draw.choice(VALUES)


def _tried(app: Starlette, model: StandIn, seeds: range) -> dict[int, int]:
    """How often each status came. Raises: AssertionError for an answer that is none."""
    found = dict.fromkeys(STATUSES, 0)
    for seed in seeds:
        answer = asked(app, f"/{TOKEN}/answer", body(random.Random(seed)))
        assert answer.status in STATUSES and answer.body.isascii(), (seed, answer)
        found[answer.status] += 1
        said = answer.json
        if answer.status in (400, 413, 422):
            assert list(said) == ["error"] and 0 < len(said["error"]) < 500, (seed, said)
            assert plain(said["error"]) == said["error"], (seed, said)
        assert answer.headers["content-type"] == "application/json"
        model.asked.clear()
    after = asked(app, f"/{TOKEN}/answer", body_of())
    assert after.status == 200
    return found


def test_hostile_bodies(app: Starlette, model: StandIn) -> None:
    found = _tried(app, model, range(150))
    assert all(found[status] for status in (200, 400, 413, 422)), found


@pytest.mark.long
def test_ten_thousand_hostile_bodies(app: Starlette, model: StandIn) -> None:
    found = _tried(app, model, range(150, 10_150))
    assert all(found.values()), found
