"""Something to draw, and what a picture of it says."""

import re
import xml.etree.ElementTree as ET
from functools import cache
from io import BytesIO

import numpy as np
from matplotlib.image import imread

from attnscan.inputs.weights import SavedWeights
from attnscan.results.attention import Attention
from attnscan.results.heads import HeadScores
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights


@cache
def random_weights(layers: int, heads: int, tokens: int) -> tuple[HeadScores, Attention]:
    """Random weights over one sentence."""
    rng = np.random.default_rng(0)
    weights = rng.random((layers, heads, tokens, tokens), dtype=np.float32) ** 8 + 1e-6
    weights /= weights.sum(-1, keepdims=True)
    names = ("[CLS]", *(f"word{i}" for i in range(tokens - 2)), "[SEP]")
    special = (True, *[False] * (tokens - 2), True)
    saved = SavedWeights(weights, names, (0,) * tokens, special, (False,) * tokens)
    result = classify_weights(saved, "random", ScanOptions(), keep=True)
    assert result.attention is not None
    return result, result.attention


def texts(svg: bytes) -> list[str]:
    """Every text of a picture, in order."""
    return [
        element.text or ""
        for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def size(picture: bytes, format: str) -> tuple[float, float]:
    """In inches."""
    if format == "png":
        height, width, _ = imread(BytesIO(picture)).shape
        return width / 300, height / 300
    found = re.search(rb'width="([\d.]+)pt"|MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]', picture)
    assert found
    if format == "pdf":
        return float(found[2]) / 72, float(found[3]) / 72
    root = ET.fromstring(picture)
    return float(root.attrib["width"].removesuffix("pt")) / 72, float(
        root.attrib["height"].removesuffix("pt")
    ) / 72
