"""Languages of multilingual tokenizers (NLLB, M2M100, mBART, PLBart): given or saved, never guessed.

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
    tables = (getattr(tokenizer, table, None) for table in ("lang_code_to_token", "lang_code_to_id"))
    codes = next(filter(None, tables), None) or tokenizer.extra_special_tokens  # M2M100's and mBART's, else NLLB's
    known = sorted(str(code).strip("_") for code in codes)  # PLBart's code of java is __java__
    knows = f"it knows {', '.join(known[:_NAMED])} and {max(0, len(known) - _NAMED)} others"
    for option, language in (("source", source), ("target", target)):
        if language is not None and language.strip("_") not in known:
            what = f"the tokenizer of {name} has no language {language!r} for --{option}-language"
            raise ModelError(what, nearest(language, known, knows))
    saved = getattr(tokenizer, "init_kwargs", {})
    if saved.get("src_lang") and saved.get("tgt_lang"):  # a source alone may be a default that was written
        source, target = source or tokenizer.src_lang, target or tokenizer.tgt_lang
    needed = {"--source-language": source, "--target-language": target} if writes else {"--source-language": source}
    if missing := [option for option, language in needed.items() if language is None]:
        raise ModelError(
            f"the tokenizer of {name} writes texts of several languages, and it is not said which these are",
            f"give {' and '.join(missing)}; {knows}",
        )
    tokenizer.src_lang = source
    if target is not None:
        tokenizer.tgt_lang = target
