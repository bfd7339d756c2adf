"""What a caller may have done to a model that its weights do not show, and what of it is refused."""

from __future__ import annotations

import copy
import importlib.util
import random
import weakref
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from types import MethodType
from typing import Any

import torch
from torch.nn.utils import parametrizations, parametrize, prune
from transformers.pytorch_utils import Conv1D

Change = Callable[[Any, random.Random], Any]
"""Changes a model in place, or returns another to be given in its place."""


class Mode(Enum):
    """What a caller's module may hold."""

    LOUD = 2.0
    QUIET = 0.5


class Scaled(torch.nn.Module):
    """A caller's own module around another, or a parametrization, by an attribute of any kind."""

    def __init__(self, inside: torch.nn.Module | None, factor: Any) -> None:
        super().__init__()
        self.inside, self.factor = inside, factor

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Scale what comes out of the other."""
        values = values if self.inside is None else self.inside(values)
        factor = self.factor
        while not isinstance(factor, float | torch.Tensor):
            factor = factor() if callable(factor) and not isinstance(factor, Mode) else _inside(factor)
        return values * factor


def _inside(factor: Any) -> Any:
    if isinstance(factor, Mode):
        return factor.value
    return factor["by"] if isinstance(factor, dict) else factor[0] if isinstance(factor, list) else float(factor)


def _of_kind(model: Any, draw: random.Random, *kinds: type) -> torch.nn.Module:
    """One of the modules of some kinds in the part that decides attention: before the last layers."""
    some = [module for module in model.base_model.modules() if isinstance(module, kinds)]
    plain = [module for module in some if "weight" in module._parameters]
    return draw.choice(plain[: max(1, len(plain) // 2)])


def _linear(model: Any, draw: random.Random) -> Any:
    return _of_kind(model, draw, torch.nn.Linear, Conv1D)


def _replaced(model: Any, old: torch.nn.Module, new: torch.nn.Module) -> None:
    for module in list(model.modules()):
        for name, child in module.named_children():
            if child is old:
                setattr(module, name, new)


def _scaled_by(factor: Any) -> Change:
    """A linear module inside one of the caller's own."""

    def change(model: Any, draw: random.Random) -> None:
        linear = _linear(model, draw)
        _replaced(model, linear, Scaled(linear, factor))

    return change


def _number(model: Any, draw: random.Random) -> None:
    """A plain number of a module: an epsilon, a scale."""
    numbers = [
        (module, name)
        for module in model.base_model.modules()
        for name, value in vars(module).items()
        if isinstance(value, float) and "drop" not in name
    ]
    module, name = draw.choice(numbers)
    setattr(module, name, getattr(module, name) * 0.25 + 0.01)


def _activation(model: Any, draw: random.Random) -> None:
    names = ("GELU", "SiLU", "ReLU")
    some = [module for module in model.base_model.modules() if any(name in type(module).__name__ for name in names)]
    _replaced(model, draw.choice(some), draw.choice((torch.nn.Tanh(), torch.nn.Softplus(), torch.nn.Sigmoid())))


def _buffer(model: Any, draw: random.Random) -> None:
    """A buffer that is not saved: positions, segments, frequencies."""
    buffers = [values for _, values in model.base_model.named_buffers() if values.numel() > 1]
    if buffers:
        values = draw.choice(buffers)
        values.copy_(values.flip(-1))


def _pruned(model: Any, draw: random.Random) -> None:
    linear = _linear(model, draw)
    prune.l1_unstructured(linear, "weight", 0.5)
    prune.random_unstructured(linear, "weight", 0.3)
    prune.random_unstructured(linear, "bias", 0.5) if linear.bias is not None else None
    with torch.no_grad():
        linear.weight_orig.mul_(3)  # an optimizer's step: the weight is of the last forward


def _pruned_embedding(model: Any, _: random.Random) -> None:
    prune.l1_unstructured(model.get_input_embeddings(), "weight", 0.5)


def _normed(kind: Callable[[Any], object]) -> Change:
    def change(model: Any, draw: random.Random) -> None:
        linear = _linear(model, draw)
        kind(linear)
        with torch.no_grad():
            for name, weights in linear.named_parameters():
                if name in ("weight_orig", "weight_g"):
                    weights.mul_(3).add_(0.1)

    return change


def _parametrized(model: Any, draw: random.Random) -> None:
    parametrize.register_parametrization(_linear(model, draw), "weight", Scaled(None, 1.5))


def _hooked(model: Any, draw: random.Random) -> None:
    _linear(model, draw).register_forward_hook(lambda _module, _inputs, output: output * 2)


def _hooked_before(model: Any, draw: random.Random) -> None:
    _linear(model, draw).register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 2,))


def _watched(model: Any, _: random.Random) -> None:
    """Hooks of others that change nothing, and are no reason to refuse."""
    model.enable_input_require_grads()
    with suppress(RuntimeError):  # of mixed number formats
        model(input_ids=torch.tensor([[1, 2]]), output_attentions=True)  # transformers collects outputs by hooks
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):  # of others torch warns where they put out no tensor
            module.register_full_backward_hook(lambda *_: None)


def _forward(model: Any, draw: random.Random) -> None:
    """A method in place of a module's own, as patches do."""
    linear = _linear(model, draw)
    before = linear.forward
    linear.forward = lambda values: 2 * before(values)


def _bound(model: Any, draw: random.Random) -> None:
    """A method of a copy's own, which is no reason to refuse."""
    linear = _linear(model, draw)
    linear.forward = MethodType(lambda self, values: 2 * type(self).forward(self, values), linear)


def _subclass(model: Any, draw: random.Random) -> None:
    linear = _linear(model, draw)
    kind = type(linear)
    linear.__class__ = type("Own", (kind,), {"forward": lambda self, values: 2 * kind.forward(self, values)})


def _in_format(dtype: torch.dtype) -> Change:
    return lambda model, _: model.to(dtype)


def _norms_in_float32(model: Any, _: random.Random) -> None:
    model.to(torch.bfloat16)
    for module in model.modules():
        if "Norm" in type(module).__name__:
            module.float()


def _training(model: Any, draw: random.Random) -> None:
    model.train().requires_grad_(False)
    _linear(model, draw).eval()
    if model.supports_gradient_checkpointing:
        model.activation_checkpointing_enable()


def _layers(model: Any) -> torch.nn.ModuleList:
    return next(module for module in model.base_model.modules() if isinstance(module, torch.nn.ModuleList))


def _fewer_layers(model: Any, _: random.Random) -> None:
    del _layers(model)[-1]


def _more_layers(model: Any, draw: random.Random) -> None:
    layers = _layers(model)
    layers.append(copy.deepcopy(draw.choice(layers)))


def _another_order(model: Any, draw: random.Random) -> None:
    layers = _layers(model)
    order = draw.sample(list(layers), len(layers))
    for number, layer in enumerate(order):
        layers[number] = layer


def _shared_layer(model: Any, _: random.Random) -> None:
    layers = _layers(model)
    layers[0] = layers[-1]


def _untied(model: Any, _: random.Random) -> None:
    """The config says that the head has the embeddings' weights, and it has its own."""
    if head := model.get_output_embeddings():
        head.weight = torch.nn.Parameter(head.weight.detach().flip(0).clone())


def _tied(model: Any, draw: random.Random) -> None:
    first, second = (_linear(model, draw) for _ in range(2))
    if first.weight.shape == second.weight.shape:
        second.weight = first.weight


def _head(model: Any, draw: random.Random) -> None:
    """What a masked LM's head does behind the encoder."""
    outside = [module for module in model.modules() if not any(module is inner for inner in model.base_model.modules())]
    for module in outside:
        if "Norm" in type(module).__name__:
            module.eps = draw.choice((0.5, 1.0))


def _config(model: Any, _: random.Random) -> None:
    """What the config says of the layers, once these are made."""
    model.config.num_hidden_layers = model.config.get_text_config().num_hidden_layers - 1


def _compiled(model: Any, _: random.Random) -> Any:
    return torch.compile(model, backend="eager")


def _compiled_inside(model: Any, _: random.Random) -> None:
    layers = _layers(model)
    layers[0] = torch.compile(layers[0], backend="eager")


def _compiled_in_place(model: Any, _: random.Random) -> None:
    model.compile(backend="eager")
    for layer in _layers(model)[:1]:  # another change may have left none
        layer.compile(backend="eager")


def _quantized(model: Any, _: random.Random) -> Any:
    return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)


def _holding(value: Callable[[], Any]) -> Change:
    def change(model: Any, draw: random.Random) -> None:
        _linear(model, draw).held = value()

    return change


def _adapted(wrapped: bool = False, also: Callable[[Any], object] = lambda _: None, **settings: Any) -> Change:
    """LoRA on every linear module, with an adapter that does something."""

    def change(model: Any, _: random.Random) -> Any:
        import peft

        options = {"r": 4, "target_modules": "all-linear", "init_lora_weights": False, **settings}
        adapted = peft.get_peft_model(model, peft.LoraConfig(**options))
        also(adapted)
        return adapted if wrapped else adapted.get_base_model()

    return change


CHANGES: dict[str, Change] = {
    "nothing": lambda _model, _draw: None,
    "a number": _number,
    "an activation": _activation,
    "a scale": _scaled_by(1.5),
    "an enumeration": _scaled_by(Mode.LOUD),
    "a container": _scaled_by({"by": [2]}),
    "a tensor": _scaled_by(torch.tensor(0.5)),
    "a function": _scaled_by(lambda: 1.5),
    "a buffer": _buffer,
    "pruning": _pruned,
    "pruned embeddings": _pruned_embedding,
    "the old spectral norm": _normed(torch.nn.utils.spectral_norm),
    "the old weight norm": _normed(torch.nn.utils.weight_norm),
    "the new spectral norm": _normed(parametrizations.spectral_norm),
    "the new weight norm": _normed(parametrizations.weight_norm),
    "a parametrization": _parametrized,
    "hooks that watch": _watched,
    "a method of its own": _bound,
    "a class of its own": _subclass,
    "bfloat16": _in_format(torch.bfloat16),
    "float16": _in_format(torch.float16),
    "float64": _in_format(torch.float64),
    "norms in float32": _norms_in_float32,
    "training": _training,
    "fewer layers": _fewer_layers,
    "more layers": _more_layers,
    "layers in another order": _another_order,
    "a layer that is shared": _shared_layer,
    "an untied head": _untied,
    "tied weights": _tied,
    "a number of the head": _head,
    "a config of fewer layers": _config,
    "a hook": _hooked,
    "a hook before": _hooked_before,
    "a patched forward": _forward,
    "a generator": _holding(lambda: (number for number in range(3))),
    "compiled inside": _compiled_inside,
    "compiled in place": _compiled_in_place,
    "a weak reference": _holding(lambda: weakref.ref(Scaled)),
}
"""Each is taken, and scored as it is; or, of some kinds, refused in one line."""
REFUSED: dict[str, tuple[Change, str]] = {
    "compiled": (_compiled, "not a model of transformers"),
    "quantized": (_quantized, "is quantized"),
    "sparse": (lambda model, draw: _sparse(_linear(model, draw)), "not of plain weights"),
}
"""Each is refused in a line that says so."""
if importlib.util.find_spec("peft"):
    CHANGES |= {
        "LoRA": _adapted(),
        "DoRA": _adapted(use_dora=True),
        "LoRA that is switched off": _adapted(also=lambda adapted: adapted.base_model.disable_adapter_layers()),
        "LoRA that is merged": _adapted(also=lambda adapted: adapted.merge_adapter()),
    }
    REFUSED |= {"LoRA with its wrapper": (_adapted(wrapped=True), "merge_and_unload")}


def _sparse(linear: Any) -> None:
    linear.weight = torch.nn.Parameter(linear.weight.detach().to_sparse(), requires_grad=False)
