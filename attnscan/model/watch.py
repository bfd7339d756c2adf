"""The attention of any model of transformers, call by call, as its eager attention computes it.

Eager attention is a product of queries and keys, a softmax over the keys, and a product with the values. A
`TorchFunctionMode` sees all three, whatever a family calls its modules, in the thread that opened it. Tensors are
followed by identity: what is computed from a product, of the same size, is still that product.
"""

from __future__ import annotations

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
            equation, (left, right) = "", args[:2]
            if name == "einsum":
                factors = args[1] if isinstance(args[1], list | tuple) else args[1:]
                equation, (left, right) = args[0].replace(" ", ""), (*factors, None)[:2]
            if weights is not None and left is weights:
                self._weights = None
                self._call(weights, *_in_order(equation, right, result))
            elif result.ndim >= 3 and isinstance(right, Tensor):
                self._products[id(result)] = _Product(result, *_by_heads(equation, left, right))
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
        weights, product, query, key, scaling = by_heads(weights), self._product, None, None, 1.0
        if product is not None:
            query, key, scaling = by_heads(product.query), by_heads(product.key), product.scaling
            if query.shape[:3] != weights.shape[:3] or key.shape[2] != weights.shape[3]:
                query = key = None
        self._on_call(
            Call(
                weights,
                by_heads(self._logits),
                of_each(by_heads(value)),
                by_heads(output),
                query,
                None if key is None else of_each(key),
                scaling,
            )
        )


def _by_heads(equation: str, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys of a product. Shape: each [batch, head, token, dimension], or heads folded in."""
    if not equation:
        return left, right.mT if right.ndim >= 2 else right
    (of_left, of_right), of_result = equation.split("->")[0].split(","), equation.split("->")[1]
    summed = next((letter for letter in of_left if letter not in of_result), "")
    if not summed or {len(of_result), len(of_left), len(of_right), left.ndim, right.ndim} != {4}:
        return left, left
    batch, head, query, key = of_result
    if not set(of_left) >= {batch, head, query} or not set(of_right) >= {batch, head, key}:
        return left, left
    queries = left.permute([of_left.index(letter) for letter in (batch, head, query, summed)])
    return queries, right.permute([of_right.index(letter) for letter in (batch, head, key, summed)])


def _in_order(equation: str, value: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """The values and outputs of a product with weights, as [batch, head, token, dimension] where it says which is."""
    if not equation:
        return value, output
    (of_weights, of_value), of_output = equation.split("->")[0].split(","), equation.split("->")[1]
    *common, query, key = of_weights
    last = next((letter for letter in of_value if letter not in of_weights), "")
    if sorted(of_value) != sorted([*common, key, last]) or value.ndim != len(of_value):  # a `...` stands for several
        return value, output
    values = value.permute([of_value.index(letter) for letter in (*common, key, last)])
    return values, output.permute([of_output.index(letter) for letter in (*common, query, last)])
