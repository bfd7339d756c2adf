"""A table that a command writes: each column with what it is, and the JSON Schema made of these.

A table is declared beside the result that it holds, and named in the row of its command. `make
schema` writes the schemas to `docs/schema/`. No numpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attnscan.results.columns import (
    ALIGNMENT_COLUMNS,
    HEAD_COLUMNS,
    MEAN_COLUMNS,
    TableColumn,
)

VERSION = 1
"""Of the schemas: raise it when a column goes, or changes its meaning or type."""

Kind = Literal["text", "number", "integer", "step", "flag", "object", "list"]
_TYPES: dict[Kind, tuple[str, ...]] = {
    "text": ("string",),
    "number": ("number",),
    "integer": ("integer",),
    "step": ("integer", "string"),
    "flag": ("boolean",),
    "object": ("object",),
    "list": ("array",),
}


@dataclass(frozen=True)
class Column:
    """A column of a table, as files have it."""

    name: str
    about: str  # what it is, in a few words
    kind: Kind = "number"
    is_key: bool = False  # whether it says what a row is of, and is never missing
    is_optional: bool = False  # whether some tables lack it
    is_numbered: bool = False  # whether the name is a regular expression, for several columns

    @property
    def types(self) -> list[str]:
        """What JSON calls its values; null is one that is missing."""
        types = list(_TYPES[self.kind])
        return types if self.is_key else [*types, "null"]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        types = self.types
        return {"type": types[0] if len(types) == 1 else types, "description": self.about}


@dataclass(frozen=True)
class Table:
    """A table that a command writes."""

    name: str
    about: str  # what a row is
    columns: tuple[Column, ...]
    has_patterns: bool = False
    """Whether patterns are columns, too: those of attnscan, and your own."""
    is_signed: bool = True  # whether it comes of a model and an input, which a signature names

    @property
    def id(self) -> str:
        """What its schema is called, with the version."""
        return f"urn:attnscan:{self.name}:{VERSION}"

    @property
    def rows(self) -> str:
        """What JSON calls the list of rows."""
        return "heads" if any(column.name == "head" for column in self.columns) else "rows"

    def column(self, name: str) -> Column | None:
        """The column of a name; None if it is a pattern's."""
        for column in self.columns:
            is_named = re.fullmatch(column.name, name) if column.is_numbered else False
            if is_named or column.name == name:
                return column
        return None

    def definitions(self, names: Iterable[str], patterns: Mapping[str, str]) -> dict[str, str]:
        """What columns of these names are; `patterns` has what the score of each counts."""
        about = {}
        for name in names:
            column = self.column(name)
            if column is not None:
                about[name] = column.about
            elif self.has_patterns:
                about[name] = patterns.get(name, "the score on a pattern of your own")
        return about


def file_columns(
    columns: Iterable[TableColumn], *, is_optional: bool = False
) -> tuple[Column, ...]:
    """Columns of the tables of heads, as files have them."""
    shared = []
    for column in columns:
        kind: Kind = "text" if column.is_text else "number"
        shared.append(Column(column.name, column.about, kind, is_optional=is_optional))
    return tuple(shared)


MODEL_COLUMN = Column("model", "the model, as it was named", "text", is_key=True)
PLACE_COLUMNS = (
    Column(
        "kind",
        "which attention of an encoder-decoder: encoder, decoder or cross",
        "text",
        is_key=True,
        is_optional=True,
    ),
    Column("layer", "the layer, from 0", "integer", is_key=True),
    Column("head", "the head in its layer, from 0", "integer", is_key=True),
)
NAME_COLUMN = Column("name", "the head as L1H8: layer 1, head 8", "text", is_key=True)
LABEL_COLUMN = Column("label", "what the head does", "text")
LABEL_STAYS_COLUMN = Column(
    "label_stays", "share of bootstrap resamples in which the label is the same", "number"
)
LEADING_COLUMNS = (MODEL_COLUMN, *PLACE_COLUMNS, NAME_COLUMN, *file_columns(HEAD_COLUMNS))
"""Of tables of heads: before the patterns' scores."""
MEASURE_COLUMNS = (*file_columns(MEAN_COLUMNS), *file_columns(ALIGNMENT_COLUMNS, is_optional=True))
"""Of the same: behind these."""
TOKEN_COLUMNS = (
    Column("query", "the index of the token, or word, that attends", "integer", is_key=True),
    Column("query_token", "its text", "text", is_key=True),
    Column("key", "the index of the one that it attends to", "integer", is_key=True),
    Column("key_token", "its text", "text", is_key=True),
)


_SIGNATURE = (
    Column("model", "the model, as it was named", "text", is_key=True),
    Column("revision", "the commit of the hub that was read; missing for a directory", "text"),
    Column("attnscan", "version", "text", is_key=True),
    Column("torch", "version", "text", is_key=True),
    Column("transformers", "version; missing for saved weights", "text"),
    Column("dtype", "number format of the model", "text", is_key=True),
    Column("device", "where the model ran", "text", is_key=True),
    Column("unit", "what was scored: token or word", "text", is_key=True),
    Column("pattern_set", "version of the patterns' meaning", "text", is_key=True),
    Column("input_hash", "digest of the texts, whatever their order", "text", is_key=True),
    Column("read_by", "how attention was read: tap, watch or file", "text", is_key=True),
    Column("predictive", "how predictive words were found, or off", "text", is_key=True),
    Column("pairs_read", "pairs", "integer", is_key=True),
    Column("pairs_truncated", "of these, pairs that were cut", "integer", is_key=True),
    Column("pairs_skipped", "of these, pairs that were left out", "integer", is_key=True),
    Column("by", "weight, or what heads carry", "text", is_key=True),
    Column("special", "special tokens in, or out", "text", is_key=True),
    Column("fingerprint", "digest of weights, config and tokenizer; of many pairs", "text"),
    Column("layers", "numbers of the layers with attention, where others have none", "list"),
)
"""What names model, versions, options and input of a result."""
_SIGNATURES = ("signature", "signature_a", "signature_b", "held_signature", "treebank_signature")
_KINDS = ("encoder", "decoder", "cross")


def schema_of(table: Table) -> dict[str, Any]:
    """The JSON Schema of what a command writes as JSON."""
    properties: dict[str, Any] = {
        "schema": {"const": table.id},
        "options": {"type": "object", "description": "the options of the command"},
        "columns": {
            "type": "object",
            "description": "what each column is",
            "additionalProperties": {"type": "string"},
        },
    }
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": table.id,
        "title": f"attnscan {table.name}",
        "description": f"A row is {table.about}.",
        "type": "object",
        "properties": properties,
        "required": ["schema", "options", "columns", table.rows],
    }
    if table.is_signed:
        reference = {"$ref": "#/$defs/signature"}
        properties |= dict.fromkeys(_SIGNATURES, reference)
        of_kind = {"type": "object", "properties": {"signature": reference}}
        properties |= dict.fromkeys(_KINDS, of_kind)
        ways = [["signature"], ["signature_a", "signature_b"], *([kind] for kind in _KINDS)]
        schema["anyOf"] = [{"required": names} for names in ways]
        schema["$defs"] = {"signature": _object_of(_SIGNATURE)}
    properties[table.rows] = {"type": "array", "items": _row_of(table)}
    return schema


def _row_of(table: Table) -> dict[str, Any]:
    """The schema of a row."""
    row = _object_of([column for column in table.columns if not column.is_numbered])
    numbered = [column for column in table.columns if column.is_numbered]
    if numbered:
        row["patternProperties"] = {f"^{column.name}$": column.schema for column in numbered}
    row["additionalProperties"] = False
    if table.has_patterns:
        row["additionalProperties"] = {
            "type": ["number", "null"],
            "description": "the score on the pattern of this name",
        }
    return row


def _object_of(columns: Iterable[Column]) -> dict[str, Any]:
    """The schema of an object with some entries."""
    several = list(columns)
    return {
        "type": "object",
        "properties": {column.name: column.schema for column in several},
        "required": [column.name for column in several if not column.is_optional],
    }
