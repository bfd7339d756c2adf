"""Every picture: as wide as asked, the same bytes each time, whatever the user's settings."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from drawn import random_weights, size, texts

import attnscan
from attnscan.errors import OptionError, SelectionError
from attnscan.results.heads import HeadScores
from attnscan.views.pictures import picture


@pytest.mark.parametrize(("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_the_same_input_gives_the_same_bytes_as_wide_as_asked(article: HeadScores, format: Any, start: bytes) -> None:
    for options in ({"kind": "map"}, {"kind": "head", "heads": "1-8", "lines": True}):
        first, again = (picture(article, format=format, width=2.7, **options) for _ in range(2))
        assert first == again and first.startswith(start)
        assert size(first, format)[0] == pytest.approx(2.7, abs=0.01)


def test_a_users_settings_change_nothing_and_are_not_changed(article: HeadScores) -> None:
    before = picture(article)
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "savefig.bbox": "tight"}):
        settings = mpl.rcParams.copy()
        assert picture(article) == before
        assert mpl.rcParams.copy() == settings


@pytest.mark.parametrize(("layers", "heads"), [(24, 16), (1, 1), (1, 40), (48, 64)])
def test_any_model_has_a_map_and_scores(layers: int, heads: int) -> None:
    result, _ = random_weights(layers, heads, 4)
    found = texts(picture(result, "map", width=2))
    crowded = "No room for letters: --width gives more." in " ".join(found)
    marks = [text for text in found if len(text.removesuffix("?")) <= 1 and not text.isdigit()]
    assert len(marks) >= layers * heads if heads <= 16 else crowded
    assert all(len(picture(result, kind, width=2)) < 3_000_000 for kind in ("scores", "layers"))


def test_heads_may_be_named_by_text(article: HeadScores) -> None:
    assert picture(article, "head", heads="0-2,1-8") == picture(article, "head", heads=[(0, 2), (1, 8)])
    with pytest.raises(SelectionError, match="7-0: this model has layers 0 to 5"):
        picture(article, "head", heads=[(7, 0)])
    with pytest.raises(SelectionError, match="names no head"):
        picture(article, "head")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "mapp"}, "there is no picture of a HeadScores 'mapp'; did you mean 'map'"),
        ({"kind": "ablation"}, "no picture of a HeadScores 'ablation'; give map, scores, layers, profile or head"),
        ({"heads": "0-2"}, "the picture 'map' has no heads; heads is for head"),
        ({"kind": "layers", "pattern": ["next-word"]}, "has no patterns; patterns is for comparison"),
        ({"format": "sgv"}, "there is no picture format 'sgv'; did you mean 'svg'"),
        ({"format": "jpeg"}, "give png, svg or pdf"),
        ({"width": 0.5}, "the picture's width is 0.5 inches; give 2 to 20"),
        ({"width": float("nan")}, "give 2 to 20"),
    ],
)
def test_what_cannot_be_drawn_is_refused(article: HeadScores, options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        attnscan.plot(article, **options)


def test_results_without_pictures_and_without_attention_are_refused(article: HeadScores) -> None:
    with pytest.raises(OptionError, match="there is no picture of a Scores; "):
        picture(article.scores)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="this result has not kept its attention; "):
        picture(replace(article, attention=None), "head", heads="all")


def test_nothing_of_matplotlib_that_is_global_is_loaded(article: HeadScores, tmp_path: Path) -> None:
    """No pyplot, which would choose a window system."""
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(article))
    script = (
        "import pickle, pathlib, sys\n"
        "from attnscan.views.pictures import picture\n"
        f"result = pickle.loads(pathlib.Path({str(tmp_path / 'result.pickle')!r}).read_bytes())\n"
        "for kind, format in (('map', 'svg'), ('scores', 'pdf'), ('layers', 'png')):\n"
        "    picture(result, kind, format)\n"
        "print(sorted({'matplotlib.pyplot', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
