"""Attention weights in an `.npz` file, from other tools or an earlier run.

Pickled objects are never loaded.
"""

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import WeightsError
from attnscan.inputs.sentence import PADDING, SPECIAL, EncodedInput, QuerySide, Unit
from attnscan.inputs.spelling import is_punctuation, spelled_units
from attnscan.inputs.tool_weights import plain_arrays

DELIMITERS = frozenset(
    {
        *("[CLS]", "[SEP]", "[BOS]", "[EOS]", "<cls>", "<sep>", "<bos>", "<eos>", "<s>", "</s>"),
        *("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>"),
    }
)
"""Special tokens by spelling, for saved weights that do not say which tokens are special."""
_ARRAYS = ("attention", "tokens", "segments", "special")
"""Ends of the names of arrays that are read of a file; others may hold anything."""
_PADDING_NAME = re.compile(r"[<\[{](.*[^a-z])?pad(ding)?([^a-z].*)?[>\]}]", re.IGNORECASE)
"""How padding is spelled: `[PAD]`, `<pad>`, `<|padding|>`, `<|finetune_right_pad_id|>`, ..."""
_ROW_TOLERANCE = 2e-3  # float16 rounds a row's sum by up to 5e-4
_REMEDY = "save it with numpy.savez(file, attention=..., tokens=...)"
_UNKNOWN = "[?]"  # what a target's last position predicts, where a file has only what it reads

SavedKind = Literal["encoder", "decoder", "cross"]
_TEXTS = {"encoder": ("encoder",), "decoder": ("decoder",), "cross": ("encoder", "decoder")}
"""Of which texts a kind of attention has tokens; those of its queries are last."""
_SideTokens = tuple[tuple[str, ...], tuple[bool, ...]]
"""The tokens of a text, and which of them are special."""


@dataclass(frozen=True)
class SavedWeights:
    """The attention of one input, of one kind.

    Raises: WeightsError for what does not fit, or is no softmax.
    """

    attention: NDArray[np.float32]
    """Shape: [layer, head, query, key]; every row sums to 1."""
    tokens: tuple[str, ...]
    segments: tuple[int, ...]
    """0 or 1 for every token."""
    special: tuple[bool, ...]
    """Which tokens are delimiters."""
    padding: tuple[bool, ...]
    """Which tokens only fill up."""
    source: int = 0
    """Of cross attention, how many tokens are the source's.

    These are keys; the target's behind them are queries.
    """
    array: str = "attention"
    """What files call it."""
    left_out: int = 0
    """How many tokens of padding were left out of these."""

    def __post_init__(self) -> None:
        self._check_shape()
        is_word = ~np.logical_or(self.special, self.padding)
        if not is_word[self.source :].any() or (self.source and not is_word[: self.source].any()):
            raise WeightsError(
                "every token is special, so there is no word to score",
                "mark words in 'special' as 0",
            )
        self._check_softmax()

    def _check_shape(self) -> None:
        shape = self.attention.shape
        if len(shape) != 4 or 0 in shape:
            raise WeightsError(
                f"'{self.array}' has shape {list(shape)}",
                "it must be [layer, head, query, key], of one input without a batch axis",
            )
        length = len(self.tokens)
        queries = length - self.source
        if shape[2:] == (queries, self.source or length):
            return
        tokens = f"{self.source} + {queries}" if self.source else length
        axes = f"{shape[2]} queries and {shape[3]} keys"
        raise WeightsError(
            f"'{self.array}' is over {axes}, and there are {tokens} tokens",
            "save the weights of one input with all of its tokens",
        )

    def _check_softmax(self) -> None:
        sums = self.attention.sum(-1, dtype=np.float64)
        is_one = np.abs(sums - 1) <= _ROW_TOLERANCE  # NaN is wrong, too
        wrong = np.argwhere(~is_one | (self.attention < 0).any(-1))
        if not len(wrong):
            return
        layer, head, query = wrong[0]
        least = self.attention[layer, head, query].min()
        row = f"layer {layer}, head {head}, query {query}"
        total = sums[layer, head, query]
        raise WeightsError(
            f"'{self.array}' is not softmax weights: "
            f"the row of {row} sums to {total:.6g}, and its least is {least:.6g}",
            "save weights after the softmax, not before, and without dropout",
        )


def write_weights(*kinds: SavedWeights) -> bytes:
    """The bytes of a file that `read_weights` reads.

    It holds one attention, or the kinds of an encoder-decoder.
    """
    if len(kinds) == 1 and kinds[0].array == "attention":
        names = ("attention", "tokens", "segments", "special")
        arrays = {name: getattr(kinds[0], name) for name in names}
    else:
        arrays = _arrays_of_kinds(kinds)
    file = io.BytesIO()
    values = {name: np.array(value) for name, value in arrays.items()}
    np.savez_compressed(file, allow_pickle=False, **values)
    return file.getvalue()


def _arrays_of_kinds(kinds: Sequence[SavedWeights]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for saved in sorted(kinds, key=lambda saved: saved.source):  # cross attention last
        array = "encoder_attention" if saved.array == "attention" else saved.array
        arrays[array] = saved.attention
        parts = {array.removesuffix("_attention"): slice(None)}
        if saved.source:
            parts = {"encoder": slice(saved.source), "predicted": slice(saved.source, None)}
        for text, part in parts.items():
            is_known = text == "predicted" and saved.tokens[part] == arrays.get("decoder_tokens")
            if not is_known:
                arrays[f"{text}_tokens"] = saved.tokens[part]
                arrays[f"{text}_special"] = saved.special[part]
    return arrays


def read_weights(
    path: Path, kind: SavedKind = "encoder", query: QuerySide = "predicts"
) -> SavedWeights:
    """Read a kind of attention from a file of what `weights_of` takes.

    Raises: WeightsError, which names the file.
    """
    try:
        if not path.is_file():  # a pipe or a device may have no end
            raise OSError("it is not a file")
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no archive of arrays")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            names = [name for name in arrays if name.endswith(_ARRAYS) or "hook" in name]
            return weights_of({name: arrays[name] for name in names}, kind, query)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error.what}", error.remedy) from None
    except OSError as error:
        reason = error.strerror or error
        raise WeightsError(f"cannot read {path}: {reason}", "check the path") from None
    except Exception as error:  # zipfile, decompressors and numpy raise whatever their parts raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise WeightsError(f"{path} is not a valid .npz file: {reason}", _REMEDY) from None


def weights_of(
    arrays: Mapping[str, Any], kind: SavedKind = "encoder", query: QuerySide = "predicts"
) -> SavedWeights:
    """Saved weights from the arrays of such a file.

    These are `attention`, `tokens` and perhaps `segments` and `special`. Of an encoder-decoder they
    are `encoder_attention`, `decoder_attention` or `cross_attention`; `encoder_tokens`, and
    `decoder_tokens`, which positions read, perhaps `predicted_tokens`; for each perhaps
    `decoder_special` and so on.

    Shape: [layer, head, query, key], or [1, head, query, key] for each layer; an entry for each
    token. What `generate` returns, and caches of TransformerLens, are taken, too. Raises:
    WeightsError.
    """
    arrays = plain_arrays(arrays)
    array = _array_name(arrays, kind)
    attention = _attention(arrays, array)
    prefixes = [""] if array == "attention" else [f"{text}_" for text in _TEXTS[kind]]
    texts = [_text(arrays, prefix) for prefix in prefixes]
    if kind == "cross" and query == "predicts":
        texts[-1] = _predicted(arrays, texts[-1])
    attention, texts, keeps = _leave_out_padding(attention, texts)
    source = len(texts[0][0]) if kind == "cross" else 0
    tokens = tuple(chain.from_iterable(side_tokens for side_tokens, _ in texts))
    special = tuple(chain.from_iterable(side_special for _, side_special in texts))
    if array != "attention":
        segments = (0,) * source + (int(kind != "encoder"),) * (len(tokens) - source)
    elif "segments" in arrays:
        flags = _flags(arrays, "segments", len(keeps[0]))
        segments = tuple(int(flag) for flag, keep in zip(flags, keeps[0], strict=True) if keep)
    else:
        segments = _segments(special)
    is_padding = [is_padding_name(token) for token in tokens]
    padding = tuple(pad and not extra for pad, extra in zip(is_padding, special, strict=True))
    return SavedWeights(
        attention=attention,
        tokens=tokens,
        segments=segments,
        special=special,
        padding=padding,
        source=source,
        array=array,
        left_out=sum(int((~keep).sum()) for keep in keeps),
    )


def is_padding_name(token: str) -> bool:
    """Whether a token is spelled as padding is.

    >>> [is_padding_name(token) for token in ("[PAD]", "<|right_pad_id|>", "pad", "<padre>")]
    [True, True, False, False]
    """
    return _PADDING_NAME.fullmatch(token) is not None


def _leave_out_padding(
    attention: NDArray[np.float32], texts: Sequence[_SideTokens]
) -> tuple[NDArray[np.float32], list[_SideTokens], list[NDArray[np.bool_]]]:
    """Weights and tokens without padding on either side; and which tokens of each text are kept.

    Padding is what is spelled so, and what stands at an end and no other token looks at. What is
    spelled so and looked at is kept.
    """
    sizes = [len(tokens) for tokens, _ in texts]
    keeps = [np.ones(size, dtype=np.bool_) for size in sizes]
    if attention.ndim != 4 or attention.shape[2:] != (sizes[-1], sizes[0]):
        return attention, list(texts), keeps  # refused later, as all are shown
    is_named = []
    for tokens, special in texts:
        is_pad = np.array(list(map(is_padding_name, tokens)))
        is_named.append(is_pad & ~np.array(special))
    keeps = [~named for named in is_named]
    looks: NDArray[np.bool_] = np.any(attention, axis=(0, 1))
    keeps[0] &= ~_unseen_end(looks, texts[0][0])
    if len(texts) == 1:
        keeps[0] &= ~_unseen_beginning(looks, texts[0][0])
    # What is kept has to find all that it looks at
    while True:
        is_used = looks[keeps[-1]].any(axis=0)
        if not (is_used & ~keeps[0]).any():
            break
        keeps[0] |= is_used
    if not keeps[0].any() or not keeps[-1].any():
        return attention, list(texts), [np.ones(size, dtype=np.bool_) for size in sizes]
    kept_texts = [
        (_where(tokens, keep), _where(special, keep))
        for (tokens, special), keep in zip(texts, keeps, strict=True)
    ]
    return attention[:, :, keeps[-1]][..., keeps[0]], kept_texts, keeps


def _where(values: Sequence[Any], keep: NDArray[np.bool_]) -> tuple[Any, ...]:
    return tuple(value for value, is_kept in zip(values, keep, strict=True) if is_kept)


def _unseen_end(looks: NDArray[np.bool_], tokens: Sequence[str]) -> NDArray[np.bool_]:
    """Which keys at the end are one token over and over, at which no query looks.

    Shape: `looks` [query, key], whether any head does; [key].
    """
    seen = np.flatnonzero(looks.any(axis=0))
    first = int(seen[-1]) + 1 if len(seen) else len(tokens)
    unseen = np.zeros(len(tokens), dtype=np.bool_)
    unseen[first:] = len(set(tokens[first:])) == 1
    return unseen


def _unseen_beginning(looks: NDArray[np.bool_], tokens: Sequence[str]) -> NDArray[np.bool_]:
    """Which tokens at the beginning are one over and over, at which no later query looks.

    They look at later ones themselves, as softmax does where all is hidden: it spreads evenly.
    Shape: as `_unseen_end`.
    """
    unseen = np.zeros(len(tokens), dtype=np.bool_)
    for first in range(1, len(tokens)):
        if tokens[first - 1] != tokens[0]:
            break
        is_hidden = not looks[first:, :first].any()
        if is_hidden and looks[:first, first:].any(axis=1).all():
            unseen[:first] = True
    return unseen


def _array_name(arrays: Mapping[str, Any], kind: SavedKind) -> str:
    """What a file calls a kind of attention. Raises: WeightsError if it has none of it."""
    name = f"{kind}_attention"
    if kind == "encoder" and ("attention" in arrays or name not in arrays):
        name = "attention"
    if name in arrays:
        return name
    kinds = [text for text in _TEXTS if f"{text}_attention" in arrays]
    if kinds:
        first, *others = kinds
        remedy = " or ".join([f"give ``attention={first}``", *others])
    else:
        remedy = "leave out ``attention``" if "attention" in arrays else _REMEDY
    raise WeightsError(f"has no array '{name}'", remedy)


def _predicted(arrays: Mapping[str, Any], read: _SideTokens) -> _SideTokens:
    """The tokens that a target's positions predict: each is the next one that is read."""
    if "predicted_tokens" in arrays:
        return _text(arrays, "predicted_")
    tokens, special = read
    return (*tokens[1:], _UNKNOWN), (*special[1:], True)


def _segments(special: Sequence[bool]) -> tuple[int, ...]:
    """The second segment begins behind the special token that closes the first words."""
    first_word = (*special, False).index(False)
    closing = (*special, True).index(True, first_word)
    return tuple(int(at > closing) for at in range(len(special)))


def _array(arrays: Mapping[str, Any], name: str) -> NDArray[Any]:
    """An array of numbers or texts, or of a tensor for each layer.

    Raises: WeightsError if it is none.
    """
    if name not in arrays:
        raise WeightsError(f"has no array '{name}'", f"save it, too: numpy.savez(file, {name}=...)")
    values = arrays[name]
    is_list = isinstance(values, list | tuple)
    layers = values if is_list else [values]
    parts = [_as_numpy(layer) for layer in layers if layer is not None]
    try:
        return np.asarray(parts if is_list or not parts else parts[0])
    except ValueError:
        raise WeightsError(
            f"the parts of '{name}' differ in shape", "give layers of one shape"
        ) from None


def _as_numpy(part: Any) -> Any:
    """A tensor of torch as an array; anything else as it is."""
    return part.detach().cpu().float().numpy() if hasattr(part, "detach") else part


def _attention(arrays: Mapping[str, Any], name: str) -> NDArray[np.float32]:
    values = _array(arrays, name)
    if values.shape == (0,):
        raise WeightsError(
            f"'{name}' is empty: sdpa shows no attention",
            "load the model with attn_implementation='eager'",
        )
    if values.dtype.kind != "f":
        raise WeightsError(
            f"'{name}' is of type {values.dtype}", "save float16, float32 or float64"
        )
    if values.ndim == 5 and values.shape[1] == 1:  # a batch in each layer, as transformers shows it
        values = values[:, 0]
    with np.errstate(over="ignore"):  # infinity is refused later
        return values.astype(np.float32, copy=False)


def _text(arrays: Mapping[str, Any], side: str) -> _SideTokens:
    """The tokens of a text, and which are special.

    This an array says or, if there is none, their spelling.
    """
    array = _array(arrays, f"{side}tokens")
    if array.ndim != 1 or array.dtype.kind != "U":
        raise WeightsError(
            f"'{side}tokens' is of type {array.dtype} and shape {list(array.shape)}",
            "save a plain list of strings",
        )
    tokens = tuple(array.tolist())
    if f"{side}special" in arrays:
        return tokens, _flags(arrays, f"{side}special", len(tokens))
    is_special = [token in DELIMITERS for token in tokens]
    if side and tokens and is_padding_name(tokens[0]):
        is_special[0] = True  # a decoder may start with what others pad with
    return tokens, tuple(is_special)


def _flags(arrays: Mapping[str, Any], name: str, length: int) -> tuple[bool, ...]:
    """An array of 0 and 1 for each token. Raises: WeightsError for another."""
    values = _array(arrays, name)
    is_number = values.shape == (length,) and values.dtype.kind in "biuf"
    if not is_number or not np.isin(values, (0, 1)).all():
        array = f"'{name}' is of type {values.dtype} and shape {list(values.shape)}"
        raise WeightsError(
            f"{array}, or has other numbers than 0 and 1",
            f"save one 0 or 1 for each of the {length} tokens",
        )
    return tuple(values.astype(bool).tolist())


def encode_tokens(saved: SavedWeights, unit: Unit) -> EncodedInput:
    """An input whose tokens are known and whose tokenizer is not."""
    sentence = []
    for segment, extra, pad in zip(saved.segments, saved.special, saved.padding, strict=True):
        side = SPECIAL if extra else int(segment)
        sentence.append(PADDING if pad else side)
    units = range(len(saved.tokens))
    return EncodedInput(
        tokens=saved.tokens,
        sentence=tuple(sentence),
        unit=spelled_units(sentence, saved.tokens) if unit == "word" else tuple(units),
        punctuation=tuple(map(is_punctuation, saved.tokens)),
        source=saved.source,
    )
