"""Every picture: as wide as asked, the same bytes each time, whatever the user's settings."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
from drawn import random_weights, size, texts

from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.views.pictures.look import Look
from attnscan.views.pictures.picture import heads_picture, layers_picture, map_picture, scores_picture


@pytest.mark.parametrize("width", [2.0, 3.3, 6.5])
def test_a_picture_is_as_wide_as_asked(article: Classification, attention: Attention, width: float) -> None:
    for picture in (
        map_picture(article, Look(width=width)),
        scores_picture(article, Look(width=width)),
        layers_picture(article, Look(width=width)),
        heads_picture(attention, [(1, 8)], article.signature, Look(width=width)),
        heads_picture(attention, [(1, 8)], article.signature, Look(width=width), lines=True),
    ):
        assert size(picture, "svg")[0] == pytest.approx(width, abs=0.001)


def test_the_same_input_gives_the_same_bytes(article: Classification, attention: Attention) -> None:
    def pictures(look: Look) -> list[bytes]:
        scores = [draw(article, look) for draw in (map_picture, scores_picture, layers_picture)]
        return [*scores, heads_picture(attention, [(1, 8)], article.signature, look, lines=True)]

    for look in (Look("svg"), Look("pdf"), Look("png")):
        assert pictures(look) == pictures(look)


def test_a_users_settings_change_nothing_and_are_not_changed(article: Classification) -> None:
    before = map_picture(article)
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "savefig.bbox": "tight"}):
        settings = mpl.rcParams.copy()
        assert map_picture(article) == before
        assert mpl.rcParams.copy() == settings


def test_nothing_of_matplotlib_that_is_global_is_loaded(article: Classification, tmp_path: Path) -> None:
    """No pyplot, which would choose a window system."""
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(article))
    script = (
        "import pickle, pathlib, sys\n"
        "from attnscan.views.pictures.picture import Look, layers_picture, map_picture, scores_picture\n"
        f"result = pickle.loads(pathlib.Path({str(tmp_path / 'result.pickle')!r}).read_bytes())\n"
        "for draw in (map_picture, scores_picture, layers_picture):\n"
        "    for format in ('svg', 'pdf', 'png'):\n"
        "        draw(result, Look(format))\n"
        "print(sorted({'matplotlib.pyplot', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(("layers", "heads"), [(24, 16), (32, 32), (1, 1), (2, 1), (1, 40), (48, 64)])
@pytest.mark.parametrize("width", [2.0, 3.3])
def test_any_model_has_a_map_and_scores(layers: int, heads: int, width: float) -> None:
    result, _ = random_weights(layers, heads, 4)
    found = texts(map_picture(result, Look(width=width)))
    crowded = "no room for letters: --width gives more" in found
    marks = [text for text in found if len(text) == 1 and not text.isdigit()]
    assert crowded or len(marks) >= layers * heads
    assert not (crowded and heads <= 16)
    for picture in (scores_picture(result, Look(width=width)), layers_picture(result, Look(width=width))):
        assert len(picture) < 3_000_000
