"""The languages of a translator's texts, which its tokenizer has to be told."""

from typing import Any

from attnscan.errors import ModelError, nearest


def set_languages(
    tokenizer: Any, name: str, source: str | None, target: str | None, *, writes: bool
) -> None:
    """Set the languages of sources and, if the decoder is read too, targets.

    Raises: ModelError; none is guessed.
    """
    if not hasattr(type(tokenizer), "src_lang"):
        if source or target:
            raise ModelError(
                f"the tokenizer of {name} has no languages",
                "leave ``source_language`` and the like out",
            )
        return
    languages = _known_languages(tokenizer)
    rest = max(0, len(languages) - 5)
    summary = f"it knows {', '.join(languages[:5])} and {rest} others"
    for option, language in (("source", source), ("target", target)):
        if language is not None and language.strip("_") not in languages:
            raise ModelError(
                f"the tokenizer of {name} has no language {language!r} for ``{option}_language``",
                nearest(language, languages, summary),
            )
    saved = getattr(tokenizer, "init_kwargs", {})
    # A source alone may be a default that was written
    if saved.get("src_lang") and saved.get("tgt_lang"):
        source = source or tokenizer.src_lang
        target = target or tokenizer.tgt_lang
    needed = {"``source_language``": source}
    if writes:
        needed["``target_language``"] = target
    missing = [option for option, language in needed.items() if language is None]
    if missing:
        raise ModelError(
            f"the tokenizer of {name} writes texts of several languages, and it is not said "
            "which these are",
            f"give {' and '.join(missing)}; {summary}",
        )
    tokenizer.src_lang = source
    if target is not None:
        tokenizer.tgt_lang = target


def _known_languages(tokenizer: Any) -> list[str]:
    """The codes of a tokenizer's languages: M2M100's and mBART's are in tables, NLLB's are not."""
    codes = (
        getattr(tokenizer, "lang_code_to_token", None)
        or getattr(tokenizer, "lang_code_to_id", None)
        or tokenizer.extra_special_tokens
    )
    return sorted(str(code).strip("_") for code in codes)  # PLBart's code of java is __java__
