"""The attention of any model of transformers, call by call, as its eager attention computes it.

Eager attention is a product of queries and keys, a softmax over the keys, and a product with the values. A
`TorchFunctionMode` sees all three, whatever a family calls its modules, in the thread that opened it. Tensors are
followed by identity: what is computed from a product, of the same size, is still that product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
_TIMES = {"mul", "__mul__", "mul_", "__imul__", "multiply"}
_BY = {"div", "__truediv__", "div_", "__itruediv__", "true_divide"}


@dataclass(frozen=True)
class Call:
    """One call of attention."""

    weights: Tensor
    """Shape: [batch, head, query, key], in the model's number format."""
    logits: Tensor
    """What the softmax is of. Shape: that of `weights`; with a sink, one more key."""
    value: Tensor
    """Shape: [batch, head, key, dimension]."""
    output: Tensor
    """A view of what the model goes on with: to change it in place changes what heads put out.

    Shape: [batch, head, query, dimension]."""
    query: Tensor | None
    """Shape: [batch, head, query, dimension]; None where no single product makes the logits."""
    key: Tensor | None
    """Shape: [batch, head, key, dimension]."""
    scaling: float
    """What the product of queries and keys is multiplied with."""


@dataclass
class _Product:
    """A product of queries [..., query, dimension] and keys [..., key, dimension], and what has become of it."""

    result: Tensor
    query: Tensor
    key: Tensor
    scaling: float = 1.0


class Watch(TorchFunctionMode):
    """Sees every softmax over keys that a product with values follows."""

    def __init__(self, on_call: Callable[[Call], None], batch: int) -> None:
        """`batch` is how many inputs the model runs on: some families fold their heads into it."""
        super().__init__()
        self._on_call, self._batch = on_call, batch
        self._products: dict[int, _Product] = {}
        self._weights: Tensor | None = None
        """What has become of the last softmax; beside it what that was of, and the product that this came from."""
        self._logits: Tensor | None = None
        self._product: _Product | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch, and look at what it did."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and args:
            self._look(getattr(func, "__name__", ""), args, kwargs, result)
        return result

    def _look(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> None:
        weights = self._weights
        if name == "softmax" and result.ndim >= 3:
            self._weights, self._logits, self._product = result, args[0], self._products.get(id(args[0]))
            self._products.clear()
        elif name in _PRODUCTS:
            axes, factors = None, args
            if name == "einsum":
                axes = re.fullmatch(r"([\w.]+),([\w.]+)->([\w.]+)", args[0].replace(" ", ""))
                factors = args[1] if isinstance(args[1], list | tuple) else args[1:]
            left, right = (*factors, None)[:2]
            if weights is not None and left is weights:
                self._weights = None
                self._call(weights, *_in_order(axes, right, result))
            elif result.ndim >= 3 and isinstance(right, Tensor):
                self._products[id(result)] = _Product(result, *_by_heads(axes, left, right))
        elif name == "baddbmm":
            left, right = args[1:3] if len(args) > 1 else (kwargs["batch1"], kwargs["batch2"])
            self._products[id(result)] = _Product(result, left, right.mT, kwargs.get("alpha", 1.0))
        elif weights is not None and args[0] is weights:
            sliced = name == "__getitem__" and result.shape[:-1] == weights.shape[:-1]  # a sink is cut off
            if result.numel() == weights.numel() or sliced:
                self._weights = result
        else:
            self._follow(name, args, result)

    def _follow(self, name: str, args: Sequence[Any], result: Tensor) -> None:
        """Note what a product has become."""
        product = next((self._products[id(given)] for given in args if id(given) in self._products), None)
        if product is None or result.numel() != product.result.numel():
            return
        other = next((given for given in args if given is not product.result), None)
        if isinstance(other, int | float) or (isinstance(other, Tensor) and other.ndim == 0):
            product.scaling *= float(other) if name in _TIMES else 1 / float(other) if name in _BY else 1.0
        self._products.pop(id(product.result), None)
        product.result = result
        self._products[id(result)] = product

    def _call(self, weights: Tensor, value: Tensor, output: Tensor) -> None:
        """Tell of a call, by input and head, where the model may have folded the two into one axis."""
        heads = (self._batch, -1) if weights.ndim == 3 else weights.shape[:-2]

        def by_heads(values: Tensor) -> Tensor:
            return values.view(*heads, *values.shape[-2:]) if values.ndim == 3 else values

        def of_each(values: Tensor) -> Tensor:  # one may be for several heads
            return values.expand(*weights.shape[:2], *values.shape[2:])

        assert self._logits is not None
        weights, logits, product = by_heads(weights), by_heads(self._logits), self._product
        value, output, query, key, scaling = of_each(by_heads(value)), by_heads(output), None, None, 1.0
        if product is not None:
            query, key, scaling = by_heads(product.query), by_heads(product.key), product.scaling
            fit = query.shape[:3] == weights.shape[:3] and key.shape[2] == weights.shape[3]
            query, key = (query, of_each(key)) if fit else (None, None)
        self._on_call(Call(weights, logits, value, output, query, key, scaling))


def _by_heads(axes: re.Match[str] | None, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys of a product. Shape: each [batch, head, token, dimension], or heads folded in."""
    if axes is None:
        return left, right.mT if right.ndim >= 2 else right
    of_left, of_right, of_result = axes.groups()
    summed = "".join(set(of_left) - set(of_result))
    return (
        _permuted(left, of_left, of_result[:3] + summed),
        _permuted(right, of_right, of_result[:2] + of_result[3:] + summed),
    )


def _in_order(axes: re.Match[str] | None, value: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """The values and outputs of a product with weights, as [batch, head, token, dimension]."""
    if axes is None:
        return value, output
    of_weights, of_value, of_output = axes.groups()
    last = "".join(set(of_value) - set(of_weights))
    return (
        _permuted(value, of_value, of_weights[:-2] + of_weights[-1] + last),
        _permuted(output, of_output, of_weights[:-1] + last),
    )


def _permuted(values: Tensor, axes: str, wanted: str) -> Tensor:
    """Values with their axes in another order; as they are where they have others, as behind a `...`."""
    known = sorted(axes) == sorted(wanted) and values.ndim == len(axes)
    return values.permute([axes.index(letter) for letter in wanted]) if known else values
