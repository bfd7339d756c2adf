"""Every head's profile as a page holds it: its strongest parts in words, by weight and by what it carries."""

from __future__ import annotations

import json
import zlib

from attnscan.results.classification import Classification
from attnscan.results.profile import Profile
from attnscan.safe_text import plain
from attnscan.views.page.cargo import compressed

_PARTS = 6  # of a head, at most
_MOST_HEADS = 600  # which take 25 kB; of more, a page has better things to hold


def profiles(result: Classification, *, carried: bool) -> str:
    """JSON, base64 of deflated bytes: by each reading a list of heads, each what is unexplained and its parts' names
    and shares; empty where there are no profiles, or too many heads.
    """
    if result.scores.entropy.size > _MOST_HEADS:
        return ""
    by_weight = result if result.carried is None else result.with_norm(False)
    readings = {"weight": by_weight.profile} | ({"carried": result.with_norm(True).profile} if carried else {})
    told = {name: _heads(profile) for name, profile in readings.items() if profile is not None}
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return compressed(text.encode(), zlib.Z_DEFAULT_STRATEGY) if told else ""


def _heads(profile: Profile) -> list[tuple[float | None, list[tuple[str, float]]]]:
    found = []
    for head in profile.heads:
        explained = float(profile.fit.explained[head])
        parts = [(plain(name), round(share, 3)) for name, share in profile.strongest(head)[:_PARTS]]
        found.append((round(1 - explained, 3) if explained == explained else None, parts))
    return found
