"""The attention of any model of transformers, call by call, as its eager attention computes it.

Eager attention is a product of queries and keys, a softmax over the keys, and a product with the values. A
`TorchFunctionMode` sees all three, whatever a family calls its modules, in the thread that opened it. Tensors are
followed by identity: what is computed from a product, of the same size, is still that product.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_TIMES = {"mul", "__mul__", "mul_", "__imul__", "multiply"}
_BY = {"div", "__truediv__", "div_", "__itruediv__", "true_divide"}


@dataclass(frozen=True)
class AttentionCall:
    """One call of attention. Shape: each [batch, head, query or key, dimension or key]."""

    weights: Tensor  # in the model's number format
    logits: Tensor  # the input of the softmax; with a sink, one more key
    value: Tensor
    output: Tensor  # a view of what the model goes on with: to change it in place changes what heads put out
    query: Tensor | None  # None where no single product makes the logits
    key: Tensor | None
    scaling: float  # what the product of queries and keys is multiplied with


@dataclass
class _Product:
    """A product of queries [..., query, dimension] and keys [..., key, dimension], and what has become of it."""

    result: Tensor
    query: Tensor
    key: Tensor
    scaling: float = 1.0


class SoftmaxWatch(TorchFunctionMode):
    """Sees every softmax over keys that a product with values follows."""

    def __init__(self, on_call: Callable[[AttentionCall], None], batch: int) -> None:
        """`batch` is how many inputs the model runs on: some families fold their heads into it."""
        super().__init__()
        self._on_call, self._batch = on_call, batch
        self._products: dict[int, _Product] = {}
        self._weights: Tensor | None = (
            None  # the result of the last softmax, as the model has changed it since
        )
        self._logits: Tensor | None = None  # the input of that softmax
        self._product: _Product | None = None  # the product that the input came from

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch, and look at what it did."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and args:
            self._look(getattr(func, "__name__", ""), args, result)
        return result

    def _look(self, name: str, args: Sequence[Any], result: Tensor) -> None:
        weights = self._weights
        if name == "softmax" and result.ndim >= 3:
            self._weights, self._logits, self._product = (
                result,
                args[0],
                self._products.get(id(args[0])),
            )
            self._products.clear()
        elif (
            name in ("matmul", "__matmul__", "bmm", "einsum")
            and (factors := _factors(args, result)) is not None
        ):
            left, right, product = factors
            if weights is not None and left is weights:
                self._weights = None
                self._call(weights, right, product)
            elif result.ndim >= 3:
                self._products[id(result)] = _Product(
                    result, left, right.mT if right.ndim > 1 else right
                )
        elif weights is not None and args[0] is weights:
            sliced = (
                name == "__getitem__" and result.shape[:-1] == weights.shape[:-1]
            )  # a sink is cut off
            if result.numel() == weights.numel() or sliced:
                self._weights = result
        else:
            self._follow(name, args, result)

    def _follow(self, name: str, args: Sequence[Any], result: Tensor) -> None:
        """Note what a product has become."""
        product = next(
            (self._products[id(argument)] for argument in args if id(argument) in self._products),
            None,
        )
        if product is None or result.numel() != product.result.numel():
            return
        factor = next((argument for argument in args if argument is not product.result), None)
        if isinstance(factor, int | float) or (isinstance(factor, Tensor) and factor.ndim == 0):
            product.scaling *= (
                float(factor) if name in _TIMES else 1 / float(factor) if name in _BY else 1.0
            )
        del self._products[id(product.result)]
        product.result = result
        self._products[id(result)] = product

    def _call(self, weights: Tensor, value: Tensor, output: Tensor) -> None:
        """Report a call, by input and head, where the model may have folded the two into one axis."""
        heads = (self._batch, -1) if weights.ndim == 3 else weights.shape[:-2]

        def by_heads(values: Tensor) -> Tensor:
            return values.view(*heads, *values.shape[-2:]) if values.ndim == 3 else values

        def of_each(values: Tensor) -> Tensor:  # one may be for several heads
            return values.expand(*weights.shape[:2], *values.shape[2:])

        assert self._logits is not None
        weights, logits, product = by_heads(weights), by_heads(self._logits), self._product
        value, output, query, key, scaling = (
            of_each(by_heads(value)),
            by_heads(output),
            None,
            None,
            1.0,
        )
        if product is not None:
            query, key, scaling = by_heads(product.query), by_heads(product.key), product.scaling
            fit = query.shape[:3] == weights.shape[:3] and key.shape[2] == weights.shape[3]
            query, key = (query, of_each(key)) if fit else (None, None)
        self._on_call(AttentionCall(weights, logits, value, output, query, key, scaling))


def _factors(args: Sequence[Any], result: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """The factors and the result of a product, in matmul's order; of einsums, ProphetNet's and XLNet's."""
    if not isinstance(args[0], str):
        return args[0], args[1], result
    if args[0] == "bsij,bsjk->bsik":
        return args[1], args[2], result
    if args[0] == "ibnd,jbnd->bnij":
        return args[1].permute(1, 2, 0, 3), args[2].permute(1, 2, 3, 0), result
    if args[0] == "bnij,jbnd->ibnd":
        return args[1], args[2].permute(1, 2, 0, 3), result.permute(1, 2, 0, 3)
    return None
