"""The attention of any model of transformers, call by call, as its eager attention computes it.

Eager attention is a product of queries and keys, a softmax over the keys, and a product with the
values. A `TorchFunctionMode` sees all three, whatever a family calls its modules, in the thread
that opened it. Tensors are followed by identity: what is computed from a product, of the same size,
is still that product.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_MULTIPLY = {"mul", "__mul__", "mul_", "__imul__", "multiply"}
_DIVIDE = {"div", "__truediv__", "div_", "__itruediv__", "true_divide"}
_PRODUCTS = ("matmul", "__matmul__", "bmm", "einsum")


@dataclass(frozen=True)
class AttentionCall:
    """One call of attention. Shape: each [batch, head, query or key, dimension or key]."""

    weights: Tensor
    """In the model's number format."""
    logits: Tensor
    """The input of the softmax; with a sink, one more key."""
    value: Tensor
    output: Tensor
    """A view of what the model goes on with: to change it in place changes what heads put out."""
    query: Tensor | None
    """None where no single product makes the logits."""
    key: Tensor | None
    scaling: float
    """What the product of queries and keys is multiplied with."""


@dataclass
class _Product:
    """A product of queries [..., query, dimension] and keys [..., key, dimension], and what has
    become of it.
    """

    result: Tensor
    query: Tensor
    key: Tensor
    scaling: float = 1.0


class SoftmaxWatch(TorchFunctionMode):
    """Sees every softmax over keys that a product with values follows."""

    def __init__(self, on_call: Callable[[AttentionCall], None], batch: int) -> None:
        """`batch` is how many inputs the model runs on: some families fold their heads into it."""
        super().__init__()
        self._on_call = on_call
        self._batch = batch
        self._products: dict[int, _Product] = {}
        self._weights: Tensor | None = None
        """The result of the last softmax, as the model has changed it since."""
        self._logits: Tensor | None = None
        """The input of that softmax."""
        self._product: _Product | None = None
        """The product that the input came from."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch, and look at what it did."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and args:
            self._look(getattr(func, "__name__", ""), args, result)
        return result

    def _look(self, name: str, args: Sequence[Any], result: Tensor) -> None:
        weights = self._weights
        factors = _factors(args, result) if name in _PRODUCTS else None
        if name == "softmax" and result.ndim >= 3:
            self._weights = result
            self._logits = args[0]
            self._product = self._products.get(id(args[0]))
            self._products.clear()
        elif factors is not None:
            self._look_at_product(*factors)
        elif weights is not None and args[0] is weights:
            # A sink is cut off
            is_sliced = name == "__getitem__" and result.shape[:-1] == weights.shape[:-1]
            if result.numel() == weights.numel() or is_sliced:
                self._weights = result
        else:
            self._follow(name, args, result)

    def _look_at_product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        """Report a call where weights are multiplied with values; else note a product."""
        weights = self._weights
        if weights is not None and left is weights:
            self._weights = None
            self._report(weights, right, result)
        elif result.ndim >= 3:
            keys = right.mT if right.ndim > 1 else right
            self._products[id(result)] = _Product(result, left, keys)

    def _follow(self, name: str, args: Sequence[Any], result: Tensor) -> None:
        """Note what a product has become."""
        products = [self._products[id(value)] for value in args if id(value) in self._products]
        if not products or result.numel() != products[0].result.numel():
            return
        product = products[0]
        others = [value for value in args if value is not product.result]
        if others and _is_number(others[0]):
            if name in _MULTIPLY:
                product.scaling *= float(others[0])
            elif name in _DIVIDE:
                product.scaling *= 1 / float(others[0])
        del self._products[id(product.result)]
        product.result = result
        self._products[id(result)] = product

    def _report(self, weights: Tensor, value: Tensor, output: Tensor) -> None:
        """Report a call, by input and head, where the model may have folded both into one axis."""
        assert self._logits is not None
        heads = (self._batch, -1) if weights.ndim == 3 else tuple(weights.shape[:-2])

        def by_heads(values: Tensor) -> Tensor:
            return values.view(*heads, *values.shape[-2:]) if values.ndim == 3 else values

        weights = by_heads(weights)

        def expand(values: Tensor) -> Tensor:
            """Repeat one that is for several heads."""
            return values.expand(*weights.shape[:2], *values.shape[2:])

        query = None
        key = None
        scaling = 1.0
        if self._product is not None:
            scaling = self._product.scaling
            left = by_heads(self._product.query)
            right = by_heads(self._product.key)
            if left.shape[:3] == weights.shape[:3] and right.shape[2] == weights.shape[3]:
                query = left
                key = expand(right)
        call = AttentionCall(
            weights=weights,
            logits=by_heads(self._logits),
            value=expand(by_heads(value)),
            output=by_heads(output),
            query=query,
            key=key,
            scaling=scaling,
        )
        self._on_call(call)


def _is_number(value: Any) -> bool:
    """Whether a factor is a number, also as a tensor without dimensions."""
    return isinstance(value, int | float) or (isinstance(value, Tensor) and value.ndim == 0)


def _factors(args: Sequence[Any], result: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """The factors and the result of a product, in matmul's order; of einsums, ProphetNet's and
    XLNet's.
    """
    if not isinstance(args[0], str):
        return args[0], args[1], result
    if args[0] == "bsij,bsjk->bsik":
        return args[1], args[2], result
    if args[0] == "ibnd,jbnd->bnij":
        return args[1].permute(1, 2, 0, 3), args[2].permute(1, 2, 3, 0), result
    if args[0] == "bnij,jbnd->ibnd":
        return args[1], args[2].permute(1, 2, 0, 3), result.permute(1, 2, 0, 3)
    return None
