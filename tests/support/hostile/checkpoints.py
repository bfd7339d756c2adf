"""Directories that claim to be models: one thing in each is a trap, a contradiction or damage."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Change = Callable[[Path], object]


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._marker),))


def _json(name: str, **values: Any) -> Change:
    """Change entries of a file; what is added to a list is added to what is there."""

    def change(directory: Path) -> None:
        path = directory / name
        before = json.loads(path.read_text())
        values_ = {key: before[key] + value if key == "added_tokens" else value for key, value in values.items()}
        path.write_text(json.dumps(before | values_))

    return change


configured, ruled = partial(_json, "config.json"), partial(_json, "tokenizer.json")


def _pickled(name: str, *, sound: bool, index: bool) -> Change:
    """Pickled weights, sound or a trap, under a name that the config or an index gives."""

    def change(directory: Path) -> None:
        weights: dict[str, Any] = load_file(directory / "model.safetensors")
        torch.save(weights if sound else {"a": Trap(directory / "sprung")}, directory / name)
        (_indexed(dict.fromkeys(weights, name)) if index else configured(transformers_weights=name))(directory)

    return change


def _indexed(weight_map: dict[str, str]) -> Change:
    """An index in place of the weights."""

    def change(directory: Path) -> None:
        (directory / "model.safetensors").unlink()
        about = json.dumps({"metadata": {}, "weight_map": weight_map})
        (directory / "model.safetensors.index.json").write_text(about)

    return change


def _weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    """Weights of other numbers, or fewer."""

    def changed(directory: Path) -> None:
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors", {"format": "pt"})

    return changed


def _bytes(change: Callable[[bytes], bytes]) -> Change:
    """Weights of other bytes."""

    def changed(directory: Path) -> None:
        path = directory / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return changed


def _remote_code(directory: Path) -> None:
    for name in ("evil.py", "__init__.py"):
        (directory / name).write_text(f"import os\nos.mkdir({str(directory / 'sprung')!r})\nclass Evil: pass\n")
    own = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    configured(model_type="evil", auto_map=own, architectures=["Evil"])(directory)


def split_at(regex: str) -> dict[str, Any]:
    """A pre-tokenizer with a regular expression of its own."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


_CAT = {"content": "cat", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
EXPLODES = "(?:(?:[^x]*)*(?:[^y]*)*)*(?<=[0-9])[^!]"
"""A regular expression that no sentence matches, and that is given up after ten million attempts."""

_REPLACE = {"type": "Replace", "pattern": {"Regex": EXPLODES}, "content": "a"}
_B = {"Sequence": {"id": "B", "type_id": 0}}
_TEMPLATE = {"type": "TemplateProcessing", "single": [], "pair": [_B], "special_tokens": {}}
_TOKENIZERS: dict[str, Change] = {
    "a map of letters that is none": ruled(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}),
    "an added word that explodes": ruled(
        normalizer=_REPLACE, added_tokens=[{**_CAT, "id": 340, "content": "cat " * 10}]
    ),
    "pieces of no length": ruled(pre_tokenizer={"type": "FixedLength", "length": 0}),
    "a template without a sentence": ruled(post_processor=_TEMPLATE),
    "an empty word list": ruled(model={"type": "Unigram", "unk_id": None, "vocab": [], "byte_fallback": False}),
    "a tokenizer of words and boxes": _json("tokenizer_config.json", tokenizer_class="LayoutLMv3Tokenizer"),
}
"""Tokenizers that break inside their library, or that read no sentences."""

TRAPS: dict[str, Change] = {
    **_TOKENIZERS,
    "a config that names a pickle": _pickled("adapter_model.bin", sound=True, index=False),
    "a config that names a trap": _pickled("adapter_model.bin", sound=False, index=False),
    "an index of traps": _pickled("weights.bin", sound=False, index=True),
    "code of its own": _remote_code,
    "weights that are empty": _bytes(lambda _: b""),
    "weights that are a pickle": _bytes(lambda _: b"\x80\x02}q\x00."),
    "weights that are cut in their header": _bytes(lambda content: content[: len(content) // 100]),
    "weights that are cut in their midst": _bytes(lambda content: content[: len(content) // 2]),
    "an index without its parts": _indexed({"embeddings.word_embeddings.weight": "../../part.safetensors"}),
    "weights of NaN": _weights(lambda weights: next(w for n, w in weights.items() if "query.w" in n).fill_(torch.nan)),
    "a weight that is missing": _weights(lambda weights: weights.pop(next(n for n in weights if "key" in n))),
    "more layers than weights": configured(num_hidden_layers=3),
    "another width": configured(hidden_size=16),
    "a million heads": configured(num_attention_heads=1_000_000),
    "no heads": configured(num_attention_heads=0),
    "fewer words than the tokenizer": configured(vocab_size=3),
}
"""Each must be refused in one line, and nothing of it run."""

_VALUES = (None, True, -1, 0, 3, 2.5, 1e308, 10**30, "x", "../../etc/passwd", [1], {}, {"a": {}})


def mutated(draw: random.Random) -> Change:
    """One file of the checkpoint damaged at random: an entry of a JSON file, or bytes of any file."""

    def change(directory: Path) -> None:
        path = draw.choice(sorted(directory.iterdir()))
        content = path.read_bytes()
        if path.suffix == ".json" and draw.random() < 0.6:
            path.write_text(json.dumps(_other(json.loads(content), draw)))
        else:
            at = draw.randrange(min(len(content), 4096))  # the start, where headers are
            flipped = content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
            path.write_bytes(draw.choice((flipped, content[:at], content[:at] + draw.randbytes(8) + content[at:])))

    return change


def _other(data: Any, draw: random.Random) -> Any:
    """The same JSON with one entry another."""
    if not isinstance(data, dict) or not data:
        return draw.choice(_VALUES)
    name = draw.choice(sorted(data))
    nested = isinstance(data[name], dict) and draw.random() < 0.7
    return {**data, name: _other(data[name], draw) if nested else draw.choice(_VALUES)}


def copies(model: Path, directory: Path, changes: dict[str, Change]) -> Iterator[tuple[str, Path]]:
    """The checkpoint with each of the changes; it is removed once the next is asked for."""
    for name, change in changes.items():
        place = directory / "model"
        shutil.copytree(model, place)
        try:
            change(place)
            yield name, place
        finally:
            shutil.rmtree(place)
