"""What every result has to say of where it comes from, whatever has read its attention."""

from __future__ import annotations

from typing import Any

import torch

from attnscan.__version__ import __version__
from attnscan.results.signature import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERN_SET_VERSION


def signed(options: ScanOptions, **about: Any) -> Signature:
    """A signature, with what every result has in common filled in."""
    about["model"] = about["model"].encode(errors="backslashreplace").decode()  # a file name need not be UTF-8
    return Signature(
        **about,
        attnscan=__version__,
        torch=str(torch.__version__),
        unit=options.unit,
        norm=options.norm,
        pattern_set=PATTERN_SET_VERSION,
    )
