"""The attention of any model of transformers, call by call, as its eager attention computes it.

Eager attention is a product of queries and keys, a softmax over the keys, and a product with the values. A
`TorchFunctionMode` sees all three, whatever a family calls its modules, in the thread that opened it. Tensors are
followed by identity: what is computed from a product, of the same size, is still that product.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """A product whose result is followed."""

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
        self._softmax: tuple[Tensor, Tensor, _Product | None] | None = None
        """What has become of the last softmax, what it was of, and the product that this came from."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch, and look at what it did."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and args:
            self._look(getattr(func, "__name__", ""), args, kwargs, result)
        return result

    def _look(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
        if name == "softmax" and result.ndim >= 3:
            self._softmax = result, args[0], self._products.pop(id(args[0]), None)
            self._products.clear()
        elif name in _PRODUCTS:
            equation, (left, right) = _factors(name, args)
            if self._softmax is not None and left is self._softmax[0]:
                self._call(equation, right, result)
            elif result.ndim >= 3:
                self._products[id(result)] = _Product(result, *_by_heads(equation, left, right))
        elif name == "baddbmm":
            left, right = args[1:3] if len(args) > 1 else (kwargs["batch1"], kwargs["batch2"])
            self._products[id(result)] = _Product(result, left, right.mT, kwargs.get("alpha", 1.0))
        else:
            self._follow(name, args, result)

    def _follow(self, name: str, args: tuple[Any, ...], result: Tensor) -> None:
        """Note what a product, or the weights, have become."""
        if self._softmax is not None and args[0] is self._softmax[0]:
            weights = self._softmax[0]
            sliced = name == "__getitem__" and result.shape[:-1] == weights.shape[:-1]  # a sink is cut off
            if result is not weights and (result.numel() == weights.numel() or sliced):
                self._softmax = result, *self._softmax[1:]
            return
        product = next((self._products[id(given)] for given in args if id(given) in self._products), None)
        if product is None or result.numel() != product.result.numel():
            return
        other = next((given for given in args if given is not product.result), None)
        if isinstance(other, int | float) or (isinstance(other, Tensor) and other.ndim == 0):
            product.scaling *= float(other) if name in _TIMES else 1 / float(other) if name in _BY else 1.0
        self._products.pop(id(product.result), None)
        product.result = result
        self._products[id(result)] = product

    def _call(self, equation: str, value: Tensor, output: Tensor) -> None:
        assert self._softmax is not None
        weights, logits, product = self._softmax
        self._softmax = None
        if equation:
            value, output = _of_equation(equation, value, output)
        folded = weights.shape[:-2]
        heads = (self._batch, -1) if len(folded) == 1 else folded

        def unfolded(values: Tensor) -> Tensor:
            return values.reshape(*heads, *values.shape[-2:]) if values.ndim == 3 else values

        weights = unfolded(weights)
        query, key = (None, None) if product is None else (unfolded(product.query), unfolded(product.key))
        if query is None or key is None or query.shape[:3] != weights.shape[:3] or key.shape[2] != weights.shape[3]:
            query = key = None
        if key is not None:
            key = key.expand(*weights.shape[:2], *key.shape[2:])  # one for several heads
        value = unfolded(value)
        self._on_call(
            Call(
                weights,
                unfolded(logits),
                value.expand(*weights.shape[:2], *value.shape[2:]),
                output.view(*heads, *output.shape[-2:]) if output.ndim == 3 else output,
                query,
                key,
                1.0 if product is None else product.scaling,
            )
        )


def _factors(name: str, args: tuple[Any, ...]) -> tuple[str, tuple[Any, Any]]:
    """The equation of a product, if it is given by one, and its two factors."""
    if name != "einsum":
        return "", (args[0], args[1])
    factors = args[1] if isinstance(args[1], list | tuple) else args[1:]
    return args[0].replace(" ", ""), (factors[0], factors[1] if len(factors) == 2 else None)


def _by_heads(equation: str, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys of a product, head by head. Shape: each [batch, head, token, dimension], or heads folded in."""
    if not equation or right is None:
        return left, right.mT if right is not None and right.ndim >= 2 else left
    (of_left, of_right), of_result = equation.split("->")[0].split(","), equation.split("->")[1]
    summed = next((letter for letter in of_left if letter not in of_result), "")
    if not summed or not len(of_result) == left.ndim == right.ndim == len(of_left) == len(of_right) == 4:
        return left, left
    batch, head, query, key = list(of_result)
    if not set(of_left) >= {batch, head, query} or not set(of_right) >= {batch, head, key}:
        return left, left
    queries = left.permute([of_left.index(letter) for letter in (batch, head, query, summed)])
    return queries, right.permute([of_right.index(letter) for letter in (batch, head, key, summed)])


def _of_equation(equation: str, value: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """The values and outputs of an einsum whose first factor is [batch, head, query, key], in that order."""
    (of_weights, of_value), of_output = equation.split("->")[0].split(","), equation.split("->")[1]
    *common, query, key = list(of_weights)
    last = next((letter for letter in of_value if letter not in of_weights), "")
    named = sorted(of_value) == sorted([*common, key, last]) and sorted(of_output) == sorted([*common, query, last])
    if not named or value.ndim != len(of_value):  # a `...` stands for several
        return value, output
    values = value.permute([of_value.index(letter) for letter in (*common, key, last)])
    return values, output.permute([of_output.index(letter) for letter in (*common, query, last)])
