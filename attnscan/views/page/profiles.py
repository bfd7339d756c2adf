"""Every head's profile as a page holds it: its strongest parts in words; over many pairs, with errors."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import numpy as np

from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.profile import OFFSETS, Profile, in_words
from attnscan.safe_text import plain
from attnscan.views.page.cargo import compressed

_PARTS, _MOST_PARTS = 6, 10  # of a head, at most: on one input, and over many pairs
_MOST_HEADS = 600  # which take 25 kB; of more, a page has better things to hold


def profiles(result: Classification, *, carried: bool) -> str:
    """JSON, base64 of deflated bytes: by each reading a list of heads, each what is unexplained and its parts' names
    and shares; empty where there are no profiles, or too many heads.
    """
    if result.scores.entropy.size > _MOST_HEADS:
        return ""
    by_weight = result if result.carried is None else result.with_norm(False)
    readings = {"weight": by_weight.profile} | ({"carried": result.with_norm(True).profile} if carried else {})
    return _packed({name: _heads(profile) for name, profile in readings.items() if profile is not None})


def profiles_of_pairs(profile: Profile | None) -> str:
    """Profiles over many pairs, by the single reading that was fitted: of each head what is unexplained, its largest
    parts' names, shares and half the widths of their 95 % intervals, and the latter two for each distance.
    """
    if profile is None or profile.fit.explained.size > _MOST_HEADS:
        return ""
    reading = "carried" if profile.signature.norm else "weight"
    return _packed({reading: [_with_errors(profile, head) for head in profile.grid]})


def _packed(told: dict[str, list[Any]]) -> str:
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return compressed(text.encode(), zlib.Z_DEFAULT_STRATEGY) if told else ""


def _with_errors(profile: Profile, head: Head) -> tuple[Any, ...]:
    share, half = profile.fit.share[head.place], profile.interval[head.place]
    order = [p for p in np.argsort(-np.nan_to_num(share), kind="stable").tolist() if share[p] > 0][:_MOST_PARTS]
    parts = [(plain(in_words(profile.parts[p])), _rounded(share[p]), _rounded(half[p])) for p in order]
    places = [profile.parts.index(f"offset{offset:+}") for offset in OFFSETS]
    distances = [(_rounded(share[p]), _rounded(half[p])) for p in places]
    return _rounded(1 - profile.fit.explained[head.place]), parts, distances


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)


def _heads(profile: Profile) -> list[tuple[float | None, list[tuple[str, float]]]]:
    told = []
    for head in profile.grid:
        explained = float(profile.fit.explained[head.place])
        parts = [(plain(name), round(share, 3)) for name, share in profile.strongest(head)[:_PARTS]]
        told.append((round(1 - explained, 3) if explained == explained else None, parts))
    return told
