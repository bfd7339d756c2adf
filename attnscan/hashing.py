"""The one hash that identifies pairs, files, models and results. Needs nothing of attnscan."""

from __future__ import annotations

import hashlib


def hashed(*parts: bytes | memoryview) -> str:
    """SHA-256 of some parts, each with its length, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
