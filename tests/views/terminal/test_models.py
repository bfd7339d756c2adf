"""The screen of models."""

from __future__ import annotations

from pathlib import Path

from attnscan.model.catalog import Catalog, Entry
from attnscan.views.terminal.models import models_view
from attnscan.views.terminal.parts import render


def test_the_models_screen(tmp_path: Path) -> None:
    entries = (
        Entry("bundled", "bert", 6, 12, "ready", "package"),
        Entry("org/x\x1b[31m", "odd", None, None, "cannot run: no safetensors weights", str(tmp_path)),
    )
    text = render(models_view(Catalog(entries, "bundled", hub=False)), 120)
    assert "6 × 12" in text and "? × ?" in text and "\x1b" not in text
    assert "Without --model: bundled" in text and "does not answer" in text
