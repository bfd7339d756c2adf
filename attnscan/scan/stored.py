"""A scan's state in a file, so that a run that was stopped or killed can be gone on with.

The file is an .npz with one array for each sum, to the last bit, and JSON in `about` for all that is no sum. It is
replaced whole, so that a kill at any moment leaves the last one or the one before; zip keeps a CRC of every array.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from attnscan.errors import StateError
from attnscan.inputs.sentence import Pair, Place, Sentence
from attnscan.results.files import write_file
from attnscan.results.terms import Signature
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, Seen
from attnscan.scoring.blocks import Blocks

_FORMAT = 21


def save_state(path: Path, state: ScanState, scanner: Scanner) -> None:
    """Write what `load_state` reads, whole or not at all. Raises: OutputError."""
    assert state.signature is not None
    parts = {name: {"most": blocks.most, "bits": blocks.bits} for name, blocks in state.sums.items()}
    about = {"format": _FORMAT, "scan": _about(scanner), "seen": asdict(state.seen), "parts": parts}
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about | {"signature": asdict(state.signature)}))}
    for part, blocks in state.sums.items():
        arrays[f"{part}.keys"] = blocks.keys
        arrays |= {f"{part}.sums.{name}": values for name, values in blocks.sums.items()}
    np.savez(file := BytesIO(), allow_pickle=False, **arrays)
    write_file(path, file.getvalue())


def load_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, is of another format, or is damaged.
    """
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays["about"]))
        if about["format"] != _FORMAT:
            raise StateError(f"{path} was written by another version of attnscan", "remove it to start anew")
        _check_about(path, about["scan"], _about(scanner))
        signature = Signature(**about["signature"] | {"layers": tuple(about["signature"]["layers"])})
        sample = tuple(
            (key, Place(**place), Pair(*(Sentence(**text) for text in pair["sentences"])))
            for key, place, pair in about["seen"].pop("sample")
        )
        sums = {part: _blocks(arrays, part, limits) for part, limits in about["parts"].items()}
        return ScanState(scanner.options, Seen(**about["seen"], sample=sample), sums, signature)
    except StateError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except Exception:  # parsing a damaged file fails in any way
        raise StateError(f"{path} is not a valid state file", "remove it to start anew") from None


def _blocks(arrays: Mapping[str, Any], part: str, limits: Mapping[str, int]) -> Blocks:
    """The sums of a part of a state. Raises: ValueError if they are damaged."""
    keys, start = arrays[f"{part}.keys"], f"{part}.sums."
    sums = {name.removeprefix(start): values for name, values in arrays.items() if name.startswith(start)}
    if any(len(values) != len(keys) or not np.isfinite(values).all() for values in sums.values()):
        raise ValueError(f"{part} is damaged")
    return Blocks(keys, sums, **limits)


def _about(scanner: Scanner) -> dict[str, Any]:
    """What must be equal for sums to be added to: of the model its files, whatever its name and place."""
    signature = asdict(scanner.signature())
    about = {name: signature[name] for name in ("attnscan", "dtype", "pattern_set")}
    about |= {f"model's {part}": digest for part, digest in scanner.loaded.fingerprint.items()}
    return scanner.options.deciding | {"predictive": scanner.measure} | about


def _check_about(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises: StateError for what is not equal."""
    for name in (name for name, value in ours.items() if theirs.get(name) != value):
        if name.startswith("model's "):
            what = f"was begun with another model, or other modules of transformers: the {name} differ"
            raise StateError(f"{path} {what}", "name the model that it was begun with, or another --state file")
        what = f"belongs to another run: its {name} is {theirs.get(name)}, and here it is {ours[name]}"
        raise StateError(f"{path} {what}", "give the same options, or another --state file")
