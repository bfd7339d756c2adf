"""Something to draw, and what a picture of it says."""

import re
import xml.etree.ElementTree as ET
from functools import cache
from io import BytesIO

from matplotlib.image import imread
from pages import made_up

random_weights = cache(made_up)


def texts(svg: bytes) -> list[str]:
    """Every text of a picture, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


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
    return float(root.attrib["width"].removesuffix("pt")) / 72, float(root.attrib["height"].removesuffix("pt")) / 72
