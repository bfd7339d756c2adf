"""Checkpoints that are traps, contradict themselves or are damaged: refused in one line."""

import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, load_file, save
from support.hostile.runs import Trap, check, run, save_tiny_model

Change = Callable[[Path], object]
EXPLODES = "(?:(?:[^x]*)*(?:[^y]*)*)*(?<=[0-9])[^!]"
"""A regular expression that no sentence matches, and that is given up after ten million attempts.
"""


def rewritten(name: str, **values: Any) -> Change:
    """Other values in a JSON file."""

    def change(directory: Path) -> None:
        path = directory / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


configured = partial(rewritten, "config.json")
ruled = partial(rewritten, "tokenizer.json")


def pickled(name: str, *, sound: bool, index: bool) -> Change:
    """Pickled weights, sound or a trap, under a name that the config or an index gives."""

    def change(directory: Path) -> None:
        weights: dict[str, Any] = load_file(directory / "model.safetensors")
        torch.save(weights if sound else {"a": Trap(directory / "sprung")}, directory / name)
        (indexed(dict.fromkeys(weights, name)) if index else configured(transformers_weights=name))(
            directory
        )

    return change


def indexed(weight_map: dict[str, str]) -> Change:
    """An index in place of the weights."""

    def change(directory: Path) -> None:
        (directory / "model.safetensors").unlink()
        about = json.dumps({"metadata": {}, "weight_map": weight_map})
        (directory / "model.safetensors.index.json").write_text(about)

    return change


def with_bytes(change: Callable[[bytes], bytes]) -> Change:
    """Weights of other bytes."""

    def changed(directory: Path) -> None:
        path = directory / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return changed


def with_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    """Weights of other numbers, or fewer."""

    def changed(content: bytes) -> bytes:
        weights = load(content)
        change(weights)
        return save(weights, {"format": "pt"})

    return with_bytes(changed)


def with_code(directory: Path) -> None:
    for name in ("evil.py", "__init__.py"):
        (directory / name).write_text(
            f"import os\nos.mkdir({str(directory / 'sprung')!r})\nclass Evil: pass\n"
        )
    auto_map = {
        "AutoConfig": "evil.Evil",
        "AutoModel": "evil.Evil",
        "AutoTokenizer": ["evil.Evil", "evil.Evil"],
    }
    configured(model_type="evil", auto_map=auto_map, architectures=["Evil"])(directory)


def with_an_added_word_that_explodes(directory: Path) -> None:
    path = directory / "tokenizer.json"
    rules = json.loads(path.read_text())
    rules["normalizer"] = {"type": "Replace", "pattern": {"Regex": EXPLODES}, "content": "a"}
    word = {"id": 340, "content": "cat " * 10, "normalized": True, "special": False}
    rules["added_tokens"].append({**word, "single_word": False, "lstrip": False, "rstrip": False})
    path.write_text(json.dumps(rules))


TEMPLATE = {"single": [], "pair": [{"Sequence": {"id": "B", "type_id": 0}}], "special_tokens": {}}
TRAPS: dict[str, Change] = {
    # Tokenizers that break inside their library, or that read no sentences
    "a map of letters that is none": ruled(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}
    ),
    "an added word that explodes": with_an_added_word_that_explodes,
    "pieces of no length": ruled(pre_tokenizer={"type": "FixedLength", "length": 0}),
    "a template without a sentence": ruled(
        post_processor={"type": "TemplateProcessing", **TEMPLATE}
    ),
    "an empty word list": ruled(
        model={"type": "Unigram", "unk_id": None, "vocab": [], "byte_fallback": False}
    ),
    "a tokenizer of words and boxes": rewritten(
        "tokenizer_config.json", tokenizer_class="LayoutLMv3Tokenizer"
    ),
    # Code, and weights that are code
    "a config that names a pickle": pickled("adapter_model.bin", sound=True, index=False),
    "a config that names a trap": pickled("adapter_model.bin", sound=False, index=False),
    "an index of traps": pickled("weights.bin", sound=False, index=True),
    "code of its own": with_code,
    "weights that are a pickle": with_bytes(lambda _: b"\x80\x02}q\x00."),
    # Weights that are damaged, or do not fit the config
    "weights that are empty": with_bytes(lambda _: b""),
    "weights that are cut in their header": with_bytes(
        lambda content: content[: len(content) // 100]
    ),
    "weights that are cut in their midst": with_bytes(lambda content: content[: len(content) // 2]),
    "an index without its parts": indexed(
        {"embeddings.word_embeddings.weight": "../../part.safetensors"}
    ),
    "weights of NaN": with_weights(
        lambda held: next(held[n] for n in held if "query.w" in n).fill_(torch.nan)
    ),
    "weights of infinity": with_weights(
        lambda held: next(held[n] for n in held if "query.w" in n).fill_(torch.inf)
    ),
    "a weight that is missing": with_weights(
        lambda held: held.pop(next(n for n in held if "key" in n))
    ),
    "a million heads": configured(num_attention_heads=1_000_000),
    "no heads": configured(num_attention_heads=0),
}
VALUES = (None, True, -1, 0, 3, 2.5, 1e308, 10**30, "x", "../../etc/passwd", [1], {}, {"a": {}})


def damage(directory: Path, draw: random.Random) -> None:
    """Damage one file at random: an entry of a JSON file, or bytes of any file."""
    path = draw.choice(sorted(directory.iterdir()))
    content = path.read_bytes()
    if path.suffix == ".json" and draw.random() < 0.6:
        path.write_text(json.dumps(with_another_entry(json.loads(content), draw)))
    else:
        at = draw.randrange(min(len(content), 4096))  # the start, where headers are
        flipped = content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
        path.write_bytes(
            draw.choice((flipped, content[:at], content[:at] + draw.randbytes(8) + content[at:]))
        )


def with_another_entry(data: Any, draw: random.Random) -> Any:
    if not isinstance(data, dict) or not data:
        return draw.choice(VALUES)
    name = draw.choice(sorted(data))
    nested = isinstance(data[name], dict) and draw.random() < 0.7
    return {**data, name: with_another_entry(data[name], draw) if nested else draw.choice(VALUES)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def model(tiny: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(tiny, tmp_path / "model"))


def is_classified(model: Path) -> bool:
    done = check(run("classify", "the cat sat", "--model", model, "--predictive", "off", "--csv"))
    assert not (model / "sprung").exists(), "its code was run"
    return done


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_refused(model: Path, name: str, recwarn: pytest.WarningsRecorder) -> None:
    TRAPS[name](model)
    assert not is_classified(model)
    assert [
        each.category for each in recwarn if not issubclass(each.category, DeprecationWarning)
    ] == []


def test_damage_is_refused_or_does_no_harm(tiny: Path, tmp_path: Path) -> None:
    draw = random.Random(0)
    done = set()
    for _ in range(40):
        model = Path(shutil.copytree(tiny, tmp_path / "model"))
        damage(model, draw)
        done.add(is_classified(model))
        shutil.rmtree(model)
    assert done == {True, False}


def test_an_input_that_a_tokenizer_fails_on_is_a_bad_record(model: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(
        f"sentence_a\tsentence_b\nthe cat\ta mat\nthe {'a' * 60} cat\ta mat\nthe mat\ta cat\n"
    )
    flags = (
        "--pairs",
        pairs,
        "--no-related",
        "--predictive",
        "off",
        "--pattern",
        "delimiter",
        "--csv",
    )
    pattern = {"Regex": "(?:a|a|a)*(?=[^ a])(?!c)|[ac]"}
    ruled(
        pre_tokenizer={"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    )(model)
    stopped = run("heads", "--model", model, *flags)
    assert not check(stopped) and "pairs.tsv:3: the tokenizer" in stopped.stderr
    assert "retry-limit" in stopped.stderr and "another tokenizer" in stopped.stderr
    skipped = run("heads", "--model", model, *flags, "--skip-bad")
    assert check(skipped) and "attnscan: 1 bad record was skipped" in skipped.stderr
