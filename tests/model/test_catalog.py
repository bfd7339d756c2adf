"""What can run now: the bundled model, and what the hub's cache holds."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from hub_cache import in_cache

from attnscan.model import sources
from attnscan.model.sources import Catalog

pytestmark = pytest.mark.usefixtures("cache", "nothing_else")


class TestCatalog:
    @pytest.fixture(autouse=True)
    def silent(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from huggingface_hub import scan_cache_dir

        monkeypatch.setattr(sources, "hub_answers", lambda: False)
        monkeypatch.setattr("huggingface_hub.scan_cache_dir", partial(scan_cache_dir, cache))

    def test_without_a_cache_it_is_the_bundled_model(self) -> None:
        now = Catalog.now()
        (entry,) = now.entries
        assert [entry[name] for name in ("model", "family", "layers", "heads")] == ["bundled", "bert", 6, 12]
        assert now.ready == ["bundled"]
        assert (now.default, now.hub) == ("bundled", False)

    def test_what_the_cache_holds_is_listed_with_what_can_run(self, cache: Path) -> None:
        in_cache(cache, "org/whole")
        in_cache(cache, "org/pickled", ("config.json", "pytorch_model.bin"))
        in_cache(cache, "org/empty", ("tokenizer.json",))
        in_cache(cache, "org/wordless", ("config.json", "model.safetensors"))
        _, pickled, whole, wordless = Catalog.now().entries
        assert [whole[name] for name in ("model", "layers", "heads", "state")] == ["org/whole", 2, 3, "ready"]
        assert pickled["model"] == "org/pickled"
        assert pickled["state"].startswith("cannot run: it has no safe weights")
        assert wordless["state"] == "cannot run: it has no tokenizer"
        assert re.fullmatch(r"cache [0-9a-f]{8}", whole["where"])

    @pytest.mark.parametrize("content", ["", "{", "[1]", "[" * 100_000])
    def test_a_config_that_cannot_be_read_is_said(self, cache: Path, content: str) -> None:
        (in_cache(cache, "org/broken") / "config.json").write_text(content)
        _, broken = Catalog.now().entries
        assert (broken["family"], broken["layers"]) == ("unknown", None)
        assert broken["state"] == "cannot run: config.json cannot be read"
