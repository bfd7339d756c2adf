"""How much longer a tokenizer's rules may make a text: by arithmetic, and by the tokenizers library itself."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from draws import draws
from hostile.checkpoints import TOKENIZERS, ruled
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers_of_kinds import KINDS, byte_level

from attnscan.errors import ModelError
from attnscan.inputs.library_calls import TokenizerFailed, asked
from attnscan.model import untrusted_rules
from attnscan.model.untrusted_rules import Growth, check_files, check_rules, check_tokenizer

A, B = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}


def replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def charsmap(*texts: str, size: int = 8) -> str:
    """A map of letters in SentencePiece's format, with an empty trie."""
    return base64.b64encode(size.to_bytes(4, "little") + bytes(8) + "\0".join(texts).encode()).decode()


@pytest.mark.parametrize(
    ("rule", "growth"),
    [
        ({"type": "Lowercase"}, Growth(1, 0)),
        (replaced({"String": "a"}, "aaaaaaaaaa"), Growth(10, 0)),
        (replaced({"String": "``"}, '"'), Growth(1, 0)),
        (replaced({"String": "a"}, "ﷺ"), Growth(18, 0)),  # eighteen letters, once it is decomposed
        (replaced({"String": ""}, "ab"), Growth(3, 2)),
        (replaced({"Regex": " *"}, " "), Growth(2, 1)),
        (replaced({"Regex": " {2,}"}, "ab"), Growth(2, 0)),
        (replaced({"Regex": "\\s+"}, " "), Growth(1, 0)),
        (replaced({"Regex": " {0,2}"}, " "), Growth(2, 1)),
        (replaced({"Regex": "a|"}, " "), Growth(2, 1)),
        ({"type": "Prepend", "prepend": "▁"}, Growth(1, 1)),
        ({"type": "Precompiled", "precompiled_charsmap": charsmap("a", "abc", "")}, Growth(3, 0)),
        ({"type": "Precompiled", "precompiled_charsmap": None}, Growth(1, 0)),
        (
            {"type": "TemplateProcessing", "single": [CLS, A], "pair": [CLS, A, B, A], "special_tokens": {}},
            Growth(2, 1),
        ),
        (
            {
                "type": "TemplateProcessing",
                "single": [CLS, A],
                "pair": [CLS, A, CLS, B],
                "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2, 3, 4], "tokens": ["a", "b", "c"]}},
            },
            Growth(1, 6),
        ),
    ],
)
def test_growth_of_one_rule(rule: dict[str, Any], growth: Growth) -> None:
    assert untrusted_rules._of(rule) == growth


def test_growth_of_rules_in_a_row_and_within_each_other() -> None:
    tenfold, prefix = replaced({"String": "a"}, "a" * 10), {"type": "Prepend", "prepend": "aa"}
    inner = {"type": "Sequence", "normalizers": [prefix, tenfold]}
    growth = untrusted_rules._growth({"type": "Sequence", "normalizers": [tenfold, inner]}, "normalizers")
    assert growth == Growth(100, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_sound_tokenizers_are_taken(kind: str) -> None:
    check_tokenizer(KINDS[kind]())


@pytest.mark.parametrize(
    "name", ["XLNet", "Albert", "DebertaV2", "T5", "Camembert", "Llama", "Gemma", "CLIP", "BigBird", "Bert"]
)
def test_the_rules_of_published_families_are_far_within_the_limit(name: str) -> None:
    """Each with the map of letters that most of them have in their files, which makes eighteen letters of one."""
    rust = getattr(transformers, f"{name}Tokenizer")().backend_tokenizer
    steps = {part: getattr(rust, part) for part in ("normalizer", "pre_tokenizer", "post_processor")}
    rules = {part: json.loads(step.__getstate__()) for part, step in steps.items() if step is not None}
    own = [rules["normalizer"]] if "normalizer" in rules else []
    check_rules({**rules, "normalizer": {"type": "Sequence", "normalizers": [*own, MAP, {"type": "NFKC"}]}})


MAP = {"type": "Precompiled", "precompiled_charsmap": charsmap("صلى الله عليه وسلم")}

_letters = st.text("aāﷺ ", max_size=3)
_rules = st.one_of(
    st.builds(lambda old, new: replaced({"String": old}, new), st.text("aāﷺ ", min_size=1, max_size=2), _letters),
    st.builds(
        lambda old, new: replaced({"Regex": old}, new),
        st.sampled_from(["a*", " +", "(?=a)", ".", "a{2,}", "[a ]+"]),
        _letters,
    ),
    st.builds(lambda text: {"type": "Prepend", "prepend": text}, st.text("a ", min_size=1, max_size=3)),
    st.sampled_from(
        [
            *(
                {"type": kind}
                for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")
            ),
            {
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": True,
                "strip_accents": None,
                "lowercase": True,
            },
        ]
    ),
)


@settings(deadline=None, max_examples=draws(200))
@given(rules=st.lists(_rules, min_size=1, max_size=4), text=st.text("aāﷺ 中b", min_size=1, max_size=8))
def test_no_text_grows_more_than_is_said(rules: list[dict[str, Any]], text: str) -> None:
    whole = {"type": "Sequence", "normalizers": rules}
    empty = json.loads(byte_level().backend_tokenizer.to_str())
    rust = Tokenizer.from_str(json.dumps({**empty, "normalizer": whole}))
    growth = untrusted_rules._growth(whole, "normalizers")
    try:
        longer = asked(rust.normalizer.normalize_str, text)
    except TokenizerFailed:  # the library itself trips over some that match nothing
        return
    assert len(longer) <= growth.times * untrusted_rules._length(text) + growth.more


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if "nine" in name or "map of letters" in name])
def test_rules_are_refused_before_they_are_loaded(tmp_path: Path, name: str) -> None:
    byte_level().save_pretrained(tmp_path)
    check_files(tmp_path)
    TOKENIZERS[name](tmp_path)
    with pytest.raises(ModelError, match=r"rules of its tokenizer|map of letters"):
        check_files(tmp_path)


def test_a_rule_that_is_spelled_in_escapes_is_found(tmp_path: Path) -> None:
    byte_level().save_pretrained(tmp_path)
    ruled(normalizer={"type": "Prepend", "prepend": "a" * 10**6})(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace("Prepend", "Pr\\u0065pend").replace("ByteLevel", "Byt\\u0065Level"))
    with pytest.raises(ModelError, match="rules of its tokenizer"):
        check_files(tmp_path)


def test_a_tokenizer_larger_than_any_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    byte_level().save_pretrained(tmp_path)
    monkeypatch.setattr(untrusted_rules, "MAX_BYTES", 1000)
    with pytest.raises(ModelError, match=r"its tokenizer.json is of \d+ bytes"):
        check_files(tmp_path)
