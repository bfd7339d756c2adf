"""Devices that tests write to."""

from __future__ import annotations

from pathlib import Path

FULL = Path("/dev/full")
