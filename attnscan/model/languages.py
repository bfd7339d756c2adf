"""Languages of multilingual tokenizers (NLLB, M2M100, mBART): given or saved, never guessed.

Each text begins or ends with the token of its language. Where none is set, transformers takes English for both.
"""

from __future__ import annotations

from typing import Any

from attnscan.errors import ModelError, nearest

_NAMED = 5  # languages, at most, in a message


def set_languages(tokenizer: Any, name: str, source: str | None, target: str | None, *, writes: bool) -> None:
    """Set the languages of a model's source and, if its decoder is read too, of its target.

    Raises: ModelError if they are neither given nor both saved, are not known, or the tokenizer has none.
    """
    if not hasattr(type(tokenizer), "src_lang"):
        if source or target:
            raise ModelError(f"the tokenizer of {name} has no languages", "leave --source-language and the like out")
        return
    known = _languages(tokenizer)
    for option, language in (("source", source), ("target", target)):
        if language is not None and language not in known:
            hint = nearest(language, known, f"it knows {_some(known)}")
            raise ModelError(f"the tokenizer of {name} has no language {language!r} for --{option}-language", hint)
    saved = getattr(tokenizer, "init_kwargs", {})
    if saved.get("src_lang") and saved.get("tgt_lang"):  # a source alone may be a default that was written
        source, target = source or tokenizer.src_lang, target or tokenizer.tgt_lang
    if source is None or (writes and target is None):
        wanted = [f"--{which}-language" for which, given in (("source", source), ("target", target)) if given is None]
        raise ModelError(
            f"the tokenizer of {name} writes texts of several languages, and it is not said which these are",
            f"give {' and '.join(wanted if writes else wanted[:1])}; it knows {_some(known)}",
        )
    tokenizer.src_lang = source
    if target is not None:
        tokenizer.tgt_lang = target


def _languages(tokenizer: Any) -> list[str]:
    """What a tokenizer calls its languages: M2M100's and mBART's by a table, NLLB's by their tokens."""
    for table in ("lang_code_to_token", "lang_code_to_id"):
        if codes := getattr(tokenizer, table, None):
            return sorted(map(str, codes))
    return sorted(map(str, tokenizer.extra_special_tokens))


def _some(known: list[str]) -> str:
    return ", ".join(known[:_NAMED]) + (f" and {len(known) - _NAMED} others" if known[_NAMED:] else "")
