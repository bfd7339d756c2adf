"""Text: hashes, counts in words, and text from outside made safe to show.

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
    """A number of things in words, as `1,200 pairs`; the plural is by default with an s."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:,} {noun}"


_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters: they move the cursor or start escape sequences
    "\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069"  # these reorder the line they stand in
    "\u200b\ufeff\ufff9-\ufffb"  # these are not seen
    "\ud800-\udfff"  # lone surrogates cannot be written as UTF-8 at all
    "\ufffe\uffff"  # XML, such as an SVG picture, does not take two noncharacters
    "]"
)
"""Characters to escape. The zero-width joiner and the variation selectors make emoji, and stay."""


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
    return _UNSAFE.sub(lambda match: _json_escape(match.group()), text)


def _escape(character: str) -> str:
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    if character in short:
        return short[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(character: str) -> str:
    """An escape for JSON, whose own syntax is ASCII: its line ends between values stay."""
    return f"\\u{ord(character):04x}" if character > "\x7e" else character
