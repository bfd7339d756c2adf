"""The tables that commands write: each column with what it is, and JSON Schemas made of these.

`make schema` writes the schemas to `docs/schema/`. No numpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attnscan.results.columns import (
    ALIGNMENT_COLUMNS,
    HEAD_COLUMNS,
    HELD_COLUMNS,
    MEAN_COLUMNS,
    RANKING_COLUMNS,
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


def _shared(columns: Iterable[TableColumn], *, is_optional: bool = False) -> tuple[Column, ...]:
    """Columns of the tables of heads, which are declared once."""
    shared = []
    for column in columns:
        kind: Kind = "text" if column.is_text else "number"
        shared.append(Column(column.name, column.about, kind, is_optional=is_optional))
    return tuple(shared)


_MODEL = Column("model", "the model, as it was named", "text", is_key=True)
_LAYER_AND_HEAD = (
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
_NAME = Column("name", "the head as L1H8: layer 1, head 8", "text", is_key=True)
_LABEL = Column("label", "what the head does", "text")
_LABEL_STAYS = Column(
    "label_stays", "share of bootstrap resamples in which the label is the same", "number"
)
_HEADS = (_MODEL, *_LAYER_AND_HEAD, _NAME, *_shared(HEAD_COLUMNS))
_MEASURES = (*_shared(MEAN_COLUMNS), *_shared(ALIGNMENT_COLUMNS, is_optional=True))
_TOKENS = (
    Column("query", "the index of the token, or word, that attends", "integer", is_key=True),
    Column("query_token", "its text", "text", is_key=True),
    Column("key", "the index of the one that it attends to", "integer", is_key=True),
    Column("key_token", "its text", "text", is_key=True),
)
_MEANS = {
    "effective_neurons": "how many neurons tell target keys from others",
    "stability": "overlap of the four strongest neurons between two queries",
    "sign_agreement": "share of queries whose strongest neurons tell the sentences by their sign",
}
_CHANGES = {
    "positions_shuffled": "with the words' positions shuffled",
    "segments_zeroed": "with all segment ids 0",
    "segments_swapped": "with the segment ids exchanged",
}
_TREE = (
    Column("syntax_label", "the relation that the head follows most, if any", "text"),
    Column("syntax_statement", "what it follows, in words", "text"),
    Column("letter", "its letter on the map of syntax", "text"),
    Column("uuas", "share of the trees' links in the head's maximum spanning tree"),
    Column("chain_uuas", "that share for a tree that links each word with the next one"),
)


def _explained() -> tuple[Column, ...]:
    """The columns of `explain`, measure by measure."""
    columns = [
        _MODEL,
        *_LAYER_AND_HEAD,
        _LABEL,
        Column("pattern", "the pattern that is explained", "text", is_key=True),
        *_shared(RANKING_COLUMNS[:3]),
    ]
    columns += [Column(name, about) for name, about in _MEANS.items()]
    columns += [Column(name, f"the score {about}") for name, about in _CHANGES.items()]
    columns += [Column("n", "eligible queries", "integer"), Column("pairs", "pairs", "integer")]
    columns.append(Column("se", "standard error of the score"))
    for name, about in _CHANGES.items():
        columns.append(Column(f"{name}_se", f"standard error of the score {about}"))
    for name, about in _CHANGES.items():
        columns.append(Column(f"{name}_fall_se", f"standard error of the fall {about}"))
    for name in _MEANS:
        columns.append(Column(f"{name}_rotated", f"mean of {name} over rotated bases"))
        columns.append(Column(f"{name}_rotated_sd", f"standard deviation of {name} over these"))
    columns.append(_LABEL_STAYS)
    columns.append(Column("by", "what the pattern depends on, if that was seen", "text"))
    columns.append(Column("conclusion", "the finding, as a sentence", "text"))
    return tuple(columns)


def _carded() -> tuple[Column, ...]:
    """The columns of `head`, and what JSON has of a card besides."""
    columns = [
        Column("model", _MODEL.about, "text", is_key=True, is_optional=True),
        *_LAYER_AND_HEAD,
        _NAME,
        *_shared(HEAD_COLUMNS),
        Column("chance", "of `share`, under even attention"),
        Column("rank", "by `share` among all heads", "integer"),
        *_shared(HELD_COLUMNS, is_optional=True),
        Column(r"alike_\d+", "a head that attends alike, nearest first", "text", is_numbered=True),
        Column(r"divergence_\d+", "its Jensen-Shannon divergence, nats", is_numbered=True),
        Column("as_it_is", "`share` over the pairs of the closer look"),
    ]
    columns += [Column(name, f"`as_it_is` {about}") for name, about in _CHANGES.items()]
    for name, about in _CHANGES.items():
        columns.append(Column(f"{name}_fall_se", f"standard error of the fall {about}"))
    for column in _TREE:
        columns.append(Column(column.name, column.about, column.kind, is_optional=True))
    nested: dict[str, tuple[str, Kind]] = {
        "patterns": ("of each pattern score, chance, 95 % interval and rank", "object"),
        "profile": ("of each class of keys the share of attention", "object"),
        "profile_se": ("of each class of keys the share's standard error", "object"),
        "links": ("words that are linked beyond the average head", "list"),
        "examples": ("inputs in which the head does this most", "list"),
        "ablation": ("rows of `ablate`, if asked for", "list"),
        "syntax": ("rows of `syntax`, if a treebank was named", "list"),
    }
    for name, (about, kind) in nested.items():
        columns.append(Column(name, about, kind, is_optional=True))
    return tuple(columns)


_ALL = (
    Table(
        "heads",
        "a head, over many pairs",
        (*_HEADS, *_MEASURES, *_shared(HELD_COLUMNS, is_optional=True)),
        has_patterns=True,
    ),
    Table("classify", "a head, on one input", (*_HEADS, *_MEASURES), has_patterns=True),
    Table(
        "ranking",
        "a head, by one pattern",
        (
            _MODEL,
            Column("pattern", "the pattern that heads are ranked by", "text", is_key=True),
            Column("rank", "the head's place by score, from 1", "integer"),
            *_LAYER_AND_HEAD,
            _NAME,
            *_shared(RANKING_COLUMNS),
        ),
    ),
    Table(
        "head",
        "a head: everything about it",
        _carded(),
    ),
    Table(
        "profile",
        "a class of keys, for a head",
        (
            _MODEL,
            *_LAYER_AND_HEAD,
            _NAME,
            Column("class", "the class of keys, or a pattern of your own", "text", is_key=True),
            Column("share", "mean share of a word's attention"),
            Column("se", "standard error of the share"),
            Column("chance", "the share under even attention"),
            Column("average", "the average head's share"),
        ),
    ),
    Table(
        "show",
        "a weight of a head",
        (
            _MODEL,
            Column("kind", _LAYER_AND_HEAD[0].about, "text", is_optional=True),
            Column("layer", "the layer, from 0; missing for a mean of heads", "integer"),
            Column("head", "the head in its layer, from 0; likewise", "integer"),
            *_TOKENS,
            Column("weight", "the attention weight, or what is carried"),
            Column("aligned", "1 for a gold link, else 0", "integer", is_optional=True),
        ),
    ),
    Table("explain", "a head, and how it makes its pattern", _explained()),
    Table(
        "explain-token",
        "a key of one query, for a head",
        (
            _MODEL,
            *_LAYER_AND_HEAD,
            *_TOKENS,
            Column("weight", "the attention weight"),
            Column("logit", "what softmax makes the weight of", is_optional=True),
            Column(r"neuron_\d+", "a neuron's part of the logit", is_numbered=True),
        ),
    ),
    Table(
        "ablate",
        "a set of heads, by one measure",
        (
            _MODEL,
            Column("set", "the set: a pattern, or the heads' names", "text", is_key=True),
            Column("heads", "how many heads it has", "integer", is_key=True),
            Column("measure", "what was measured", "text", is_key=True),
            Column("intact", "of the model as it is"),
            Column("ablated", "with the set switched off"),
            Column("control", "mean with a control switched off instead"),
            Column("effect", "`ablated` less `control`"),
            Column("se", "standard error of the effect"),
            Column("spread", "standard deviation over the controls"),
            Column(
                "controls", "how many controls: sets of as many heads of these layers", "integer"
            ),
            Column("rank", "the set's place by loss among itself and its controls", "integer"),
            Column("p", "`rank` / (`controls` + 1)"),
            Column("overlap", "share of a control's heads that are in the set"),
            Column("n", "words, or answers", "integer"),
            Column("pairs", "pairs that were measured", "integer"),
            Column("conclusion", "what the rank says", "text"),
        ),
    ),
    Table(
        "similar",
        "a head, with those that attend alike",
        (
            _MODEL,
            *_LAYER_AND_HEAD,
            _LABEL,
            Column("group", "the group of heads that attend alike, from 1; 0 for none", "integer"),
            Column("x", "the place on the map of heads"),
            Column("y", "likewise"),
            Column(
                r"nearest_\d+", "a head that attends alike, nearest first", "text", is_numbered=True
            ),
            Column(r"divergence_\d+", "its Jensen-Shannon divergence, nats", is_numbered=True),
            Column(r"se_\d+", "the divergence's standard error", is_numbered=True),
            Column(
                r"[edc]?\d+-\d+", "the divergence from this head, with --matrix", is_numbered=True
            ),
            _LABEL_STAYS,
        ),
    ),
    Table(
        "compare",
        "a head of A beside one of B, by one pattern",
        (
            Column("model_a", "the first model", "text", is_key=True),
            Column("model_b", "the second model", "text", is_key=True),
            Column("pattern", "the pattern", "text", is_key=True),
            *_LAYER_AND_HEAD,
            Column("layer_b", "the layer of B's head", "integer", is_key=True),
            Column("head_b", "B's head in its layer", "integer", is_key=True),
            Column("score_a", "the score of A's head"),
            Column("score_b", "the score of B's head"),
            Column("difference", "`score_b` less `score_a`"),
            Column("se", "standard error of the difference, paired and clustered by pair"),
            Column("n", "eligible queries", "integer"),
            Column("pairs", "pairs that had any", "integer"),
            Column("label_a", "what A's head does", "text"),
            Column("label_b", "what B's head does", "text"),
            Column("divergence", "of the two heads, nats; missing without --match nearest"),
            Column("p", "of the difference, by t over pairs"),
            Column("fdr", "its false discovery rate over all heads and patterns"),
            Column("label_a_stays", "share of bootstrap resamples in which `label_a` is the same"),
            Column("label_b_stays", "share of bootstrap resamples in which `label_b` is the same"),
            Column("survives", "whether the difference is beyond chance and large enough", "flag"),
        ),
    ),
    Table(
        "syntax",
        "a head, by one relation of a treebank",
        (
            _MODEL,
            *_LAYER_AND_HEAD,
            Column("relation", "the relation, or all", "text", is_key=True),
            Column("direction", "dep->head or head->dep", "text", is_key=True),
            Column("n", "words that were asked", "integer"),
            Column("sentences", "sentences that have any", "integer"),
            Column("accuracy", "share of words whose most attended other word is right"),
            Column("weight", "mean weight on the right words"),
            Column("weight_among_words", "that with special tokens removed"),
            Column("chance", "`weight` under even attention"),
            Column("rule", "the best fixed rule", "text"),
            Column("rule_accuracy", "how often the rule is right"),
            Column("gain", "`accuracy` less `rule_accuracy`"),
            Column("se", "standard error of the gain"),
            Column("p_holm", "of the gain, two-sided, after Holm over all heads and rows"),
            Column("holds", "whether the gain is above 0 by that test at 0.05", "flag"),
            Column("held_gain", "the gain in a second treebank"),
            Column("held_p_holm", "its p after Holm"),
            Column("held_holds", "whether it holds there", "flag"),
            Column("stated", "whether the head follows the relation", "flag"),
            *_TREE,
        ),
    ),
    Table(
        "predictive",
        "two words: one that helps to predict the other",
        (
            _MODEL,
            *_TOKENS,
            Column("help", "what hiding the key costs the prediction of the query"),
            Column("target", "that as a share of the best helper's, in [0, 1]"),
        ),
    ),
    Table(
        "trace",
        "a head at a checkpoint",
        (
            Column("model", "the checkpoint", "text", is_key=True),
            Column("step", "the training step, if it is known", "integer"),
            *_LAYER_AND_HEAD,
            _NAME,
            *_shared(HEAD_COLUMNS),
            Column(
                "since", "the step from which the head keeps its last label, else its name", "step"
            ),
            *_MEASURES,
        ),
        has_patterns=True,
    ),
    Table(
        "pairs",
        "a pair, as it is read",
        (
            Column("file", "the file", "text", is_key=True),
            Column("row", "the record in the file, from 1", "integer", is_key=True),
            Column("id", "the cell of the column that --id names", "text", is_optional=True),
            Column("sentence_a", "sentence A", "text", is_key=True),
            Column("sentence_b", "sentence B, if there is one", "text"),
        ),
        is_signed=False,
    ),
    Table(
        "patterns",
        "a pattern",
        (
            Column("letter", "its letter on maps", "text", is_key=True),
            Column("pattern", "its name", "text", is_key=True),
            Column("counts", "what the score counts", "text"),
            Column("queries", "which words are asked", "text"),
            Column("keys", "which tokens they should look at", "text"),
            Column("source", "where the pattern comes from", "text"),
        ),
        is_signed=False,
    ),
    Table(
        "models",
        "a model on this machine",
        (
            Column("model", "what to give as --model", "text", is_key=True),
            Column("family", "the family of transformers", "text"),
            Column("layers", "layers", "integer"),
            Column("heads", "heads of a layer", "integer"),
            Column("state", "ready, or why not", "text"),
            Column("where", "where it is", "text"),
        ),
        is_signed=False,
    ),
    Table(
        "checkpoint",
        "a fact of a model",
        (
            Column("key", "what is known", "text", is_key=True),
            Column("value", "the fact, as a text", "text"),
        ),
        is_signed=False,
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _ALL}
"""The tables by their names."""


def definitions(
    schema: str | None, columns: Iterable[str], patterns: Mapping[str, str]
) -> dict[str, str]:
    """What each column of a table is; patterns are columns of some.

    `patterns` has what the score of each counts. `schema` is the table's id; None if it has none.
    """
    about = {}
    table = next((table for table in _ALL if table.id == schema), None)
    for name in columns:
        column = None if table is None else table.column(name)
        if column is not None:
            about[name] = column.about
        elif table is not None and table.has_patterns:
            about[name] = patterns.get(name, "the score on a pattern of your own")
    return about


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
