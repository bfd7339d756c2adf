"""Text: hashes, counts in words, and text from outside made safe to show. Needs nothing of attnscan.

Only this module decides what a terminal or a cell may see.
"""

import hashlib
import re


def hashed(*parts: bytes | memoryview) -> str:
    """SHA-256 of some parts, each with its length, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number of things in words, as `1,200 pairs`; the `plural` is by default the `singular` and an s."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


# Control characters move the cursor or start escape sequences, bidirectional controls reorder the
# line they stand in, lone surrogates cannot be written as UTF-8 at all, and XML (an SVG picture) does
# not take two noncharacters. The zero-width joiner and the variation selectors stay: emoji are made with them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""`text` with every character that a terminal might obey written as a visible escape.

    >>> plain("a\x1b[31mb"), plain("tab\there"), plain("[bold]"), plain("שלום 👩‍🚀")
    ('a\\x1b[31mb', 'tab\\there', '[bold]', 'שלום 👩‍🚀')
    """
    return _UNSAFE.sub(lambda match: _escape(match.group()), text)


def json_plain(text: str) -> str:
    r"""JSON text with the same characters as JSON escapes: it reads back as what it was.

    >>> json_plain('{"a": "\u202eb"}')
    '{"a": "\\u202eb"}'
    """
    return _UNSAFE.sub(
        lambda m: f"\\u{ord(m.group()):04x}" if m.group() > "\x7e" else m.group(), text
    )


def _escape(character: str) -> str:
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    code = ord(character)
    return short.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
