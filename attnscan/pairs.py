"""A pair of sentences: what attnscan reads."""

from __future__ import annotations

from dataclasses import dataclass

from attnscan.errors import InputError


@dataclass(frozen=True)
class Pair:
    """One input: sentence A, and sentence B if there are two.

    Raises: InputError if a sentence is blank or is not text that can be written as UTF-8.
    """

    a: str
    b: str | None = None

    def __post_init__(self) -> None:
        for name, sentence in zip("AB", self.sentences, strict=False):
            if not sentence.strip():
                raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
            try:
                sentence.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"sentence {name} is not valid Unicode: its character {error.start + 1} is half of a pair",
                    "save or paste the text as UTF-8",
                ) from None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The one or two sentences."""
        return (self.a,) if self.b is None else (self.a, self.b)
