"""What a model is, whatever its name and place: hashes of its weights, its config, its modules and its tokenizer.

They are taken of what was loaded, not of files: a copied checkpoint is the same model, an overwritten one is another.
Hashing takes about a second for each GB of weights.

Models of equal weights compute different things where an activation, a scale or an epsilon differs. So what a module
holds is written out: plain values and tensors by content, functions and classes by name and, where they are the user's
own, by their code. Left out is what decides no number, such as the device.

The hooks on a caller's modules stand here, too. Hooks that compute weights (torch's pruning, its older spectral and
weight normalization) are run once, and their weights kept. Hooks that only watch are left out. Any other is refused by
`check_modules`, as is what else a copy of the modules could not compute as they do.
"""

from __future__ import annotations

import io
import itertools
import json
import pickle
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from attnscan.errors import ModelError
from attnscan.hashing import hashed

_DIGITS = 16  # of the hash that results carry
_KNOWN = {"torch", "transformers"}
"""Packages whose code is told by their versions, which every result carries."""
_NAMED = _KNOWN | {"numpy"} | sys.stdlib_module_names
_WITH_CODE = ("__func__", "fget", "func")  # where a static method, a property and the like keep their function
_LEFT_OUT = set(vars(torch.nn.Module())) | {
    "name_or_path",
    "generation_config",
    "gradient_checkpointing",
    "_gradient_checkpointing_func",
    "_require_grads_hook",
    "_require_grads_hooks",
    "attn_implementation",
    "_attn_implementation",
    "_is_hf_initialized",
    "_weight_conversions",
    "_use_kernels",
    "_output_capturing_hooks_installed",
}
"""Attributes that torch has in every module, which are read otherwise, and those that loading or running sets."""
# Where a config was loaded from and by what, and what a run may switch on and off
_NOT_OF_THE_MODEL = {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype"} | {
    "output_attentions",
    "output_hidden_states",
}

_Hook = Callable[..., Any]
_NOT_COPIED = "_compiled_call_impl"  # of a module that was compiled in place


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of each part of a model, as hexadecimal."""

    weights: str
    """Of those that run: names, shapes and bytes, in the number format of the run."""
    config: str
    modules: str
    """Of their classes and attributes."""
    tokenizer: str

    def __str__(self) -> str:
        """All four as one, short: what results carry."""
        return hashed(*(part.encode() for part in asdict(self).values()))[:_DIGITS]


def fingerprint(model: Any, tokenizer: Any, modules: str | None = None) -> Fingerprint:
    """The fingerprint of a model as it runs, its task head included if it has one, and of its tokenizer.

    Its `modules` may have been described before: some models remember what they have run.
    """
    return Fingerprint(
        _of_weights(model), of_config(model.config), modules or of_modules(model), _of_tokenizer(tokenizer)
    )


def of_modules(model: Any) -> str:
    """A hash of classes and attributes, no two of which are equal where some attribute's content cannot be told."""
    description = described(model)
    return description.digest if description.opaque is None else secrets.token_hex()


@dataclass(frozen=True)
class Computing:
    """All that decides what a model computes, beside the versions of what computes it."""

    numbers: str
    """A hash of weights, buffers and config."""
    modules: str
    """Of classes and attributes, as in a fingerprint."""


def computing(model: Any) -> Computing | None:
    """What a model computes by, as it is in memory now; None if that cannot be told.

    It cannot of a class or hook that is not torch's or transformers' own, nor of a module in training.
    """
    description = described(model)
    at_random = any(module.training for module in model.modules())
    if description.foreign or description.opaque or at_random or torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return None
    buffers = (f"{name} {hashed(content(values))}" for name, values in model.named_buffers())
    parts = type(model).__qualname__, _of_weights(model), of_config(model.config), *buffers
    return Computing(hashed(*(part.encode() for part in parts)), description.digest)


def _of_weights(model: Any) -> str:
    """Of parameters and saved buffers; a pooler never runs, and is filled with random numbers where it is not saved."""
    parts = []
    for place, module in model.named_modules(remove_duplicate=False):
        for name, values in (*module._parameters.items(), *module._buffers.items()):
            full = f"{place}.{name}" if place else name
            if values is not None and name not in module._non_persistent_buffers_set and "pooler" not in full:
                parts.append((f"{full} {values.dtype} {list(values.shape)}", hashed(content(values))))
    return hashed(*(text.encode() for text in itertools.chain.from_iterable(sorted(parts))))


def _of_tokenizer(tokenizer: Any) -> str:
    """By what it does with a text: its rules and vocabulary, its special tokens, and how long its inputs may be."""
    about = {
        "class": type(tokenizer).__name__,
        "special": tokenizer.special_tokens_map,
        "longest": tokenizer.model_max_length,
        "vocabulary": tokenizer.get_vocab(),
    }
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if rules is None:  # one that is written in Python reads files, and its settings say which
        settings = dict(tokenizer.init_kwargs)
        named = {name: settings.pop(name) for name in sorted(settings) if name.endswith("_file")}
        files = [Path(path) for path in named.values() if isinstance(path, str) and Path(path).is_file()]
        about |= {"files": [hashed(path.read_bytes()) for path in files]}
        about |= {name: value for name, value in settings.items() if isinstance(value, bool | int)}
    else:  # each call sets how long inputs are cut and filled up
        about["rules"] = {**json.loads(rules.to_str()), "truncation": None, "padding": None}
    return hashed(json_of(about))


@dataclass(frozen=True)
class Description:
    """What was written out, as a hash, and what could not be."""

    digest: str
    """SHA-256, as hexadecimal."""
    foreign: str | None
    """The first piece of code that is neither torch's nor transformers'; None if there is none."""
    opaque: str | None
    """The first attribute whose content cannot be told; None if there is none."""


def described(model: Any) -> Description:
    """A description of all modules but poolers, which never run.

    Numbers count to 12 digits, and tensors that are no weights to the 8 bits of bfloat16: a machine computes them anew
    when a model is loaded, and may round otherwise than another.
    """
    writer = _Writer(model)
    modules = model.named_modules(remove_duplicate=False)
    parts = itertools.chain.from_iterable(writer.module(name, module) for name, module in modules)
    return Description(hashed(*parts), writer.foreign, writer.opaque)


def content(values: Tensor) -> memoryview:
    """The bytes of a tensor."""
    return values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def of_config(config: Any) -> str:
    """A hash of a config's settings."""
    return hashed(json_of(_own(config.to_dict())))


def json_of(value: Any) -> bytes:
    """Settings as JSON, in one order."""
    return json.dumps(value, sort_keys=True, default=str).encode(errors="backslashreplace")


def _own(settings: Any) -> Any:
    """Settings without what is not of the model, however deep."""
    if isinstance(settings, dict):
        return {str(name): _own(value) for name, value in settings.items() if name not in _NOT_OF_THE_MODEL}
    return settings


class _Writer:
    """Writes out modules, and notes what it meets in them."""

    def __init__(self, model: Any) -> None:
        self.foreign: str | None = None
        self.opaque: str | None = None
        self.names = {id(module): name for name, module in model.named_modules()}
        self._classes: dict[type, str] = {}
        self._configs = {id(model.config): ""}  # told by itself

    def module(self, name: str, module: torch.nn.Module) -> Iterator[bytes]:
        """One module, without those inside it and their weights."""
        if "pooler" in name:
            return
        unsaved = {buffer: module._buffers[buffer] for buffer in sorted(module._non_persistent_buffers_set)}
        about: dict[str, Any] = {"class": type(module), "hooks": forward_hooks(module), **unsaved}
        if self._is_foreign(module.forward):
            about["forward"] = module.forward
        else:
            about["prints"] = module.extra_repr()
        about |= {key: value for key, value in vars(module).items() if key not in _LEFT_OUT}
        yield name.encode(errors="backslashreplace")
        for key, value in about.items():
            try:
                written = self._bytes_of(value)
            except Exception:  # of whatever kind: a generator, a lock, a class that does not say what it holds
                written, self.opaque = b"", self.opaque or f"{name or type(module).__name__}.{key}"
            yield key.encode(errors="backslashreplace")
            yield written

    def text_of(self, value: Any) -> str:
        """Anything, as a text that depends on its content alone."""
        return self._bytes_of(value).hex()

    def _bytes_of(self, value: Any) -> bytes:
        file = io.BytesIO()
        _Pickler(self, file).dump(value)
        return file.getvalue()

    def of_config(self, config: Any) -> str:
        """A hash of its settings; most modules hold the same object."""
        if id(config) not in self._configs:
            self._configs[id(config)] = of_config(config)
        return self._configs[id(config)]

    def of_class(self, kind: type) -> str:
        """The names of a class and of all that it is derived from; of a user's own, what is in it as well."""
        if kind not in self._classes:
            names = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__]
            self._classes[kind] = names[0]  # its functions know their class
            members = [
                (
                    key,
                    self.text_of(next((getattr(member, name) for name in _WITH_CODE if hasattr(member, name)), member)),
                )
                for base in kind.__mro__
                if self._is_foreign(base)
                for key, member in vars(base).items()
                if not key.startswith("__") or isinstance(member, FunctionType)
            ]
            self._classes[kind] = f"{names} {members}"
        return self._classes[kind]

    def of_function(self, function: FunctionType) -> str:
        """The name of a function; of a user's own, and of one that was made by another, its code as well."""
        name = f"{function.__module__}.{function.__qualname__}"
        if not self._is_foreign(function) and "<" not in name and not function.__closure__:
            return name
        held = [cell.cell_contents for cell in function.__closure__ or ()]
        return f"{name} {self.text_of([function.__code__, held, function.__defaults__, function.__kwdefaults__])}"

    def _is_foreign(self, code: Any) -> bool:
        """Whether a class, function or method is neither torch's nor transformers', which is noted."""
        function = getattr(code, "__func__", code)
        places = {function.__module__, getattr(function, "__globals__", {}).get("__name__", function.__module__)}
        if {str(place).split(".")[0] for place in places} <= _NAMED:
            return False
        self.foreign = self.foreign or f"{function.__module__}.{function.__qualname__}"
        return True


class _Pickler(pickle.Pickler):
    """Pickles to be hashed, and never to be read: a text stands for what would be pickled otherwise each time."""

    def __init__(self, writer: _Writer, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.fast = True  # without references, which tell an equal object from the same one
        self._writer = writer

    def persistent_id(self, value: Any) -> str | None:
        """What stands for an object; None for one that is pickled as it is."""
        writer = self._writer
        if isinstance(value, float):
            return f"{value:.12g}"
        if isinstance(value, Tensor):
            rounded = value.bfloat16() if value.dtype.is_floating_point else value
            return f"{value.dtype} {list(value.shape)} {hashed(content(rounded))}"
        if isinstance(value, torch.nn.Module):
            name = writer.names.get(id(value))  # of one that is described by itself
            return None if name is None else f"module {name}"
        if isinstance(value, torch.device):
            return "device"
        if isinstance(value, set | frozenset):
            return f"{type(value).__name__} {sorted(map(writer.text_of, value))}"
        if isinstance(value, type):
            return writer.of_class(value)
        if isinstance(value, FunctionType):
            return writer.of_function(value)
        if isinstance(value, CodeType):
            return f"{value.co_code!r} {value.co_names} {writer.text_of(value.co_consts)}"
        return writer.of_config(value) if hasattr(value, "to_diff_dict") else None


def forward_hooks(module: torch.nn.Module) -> list[_Hook]:
    """What may change what a module computes: its hooks but those that only watch."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return [hook for hook in hooks if not _watches(hook)]


def _watches(hook: _Hook) -> bool:
    """Whether a library has put it there, to collect outputs or to let gradients reach the embeddings."""
    name = f"{getattr(hook, '__module__', '')}.{getattr(hook, '__qualname__', '')}"
    return name.startswith("transformers.utils.output_capturing.") or (
        name.startswith(("transformers.", "peft.")) and ".make_inputs_require_grad" in name
    )


@torch.no_grad()
def settle(module: torch.nn.Module, hooks: list[_Hook]) -> None:
    """Run the hooks that compute weights of a module, which is in evaluation mode, and let it keep what they compute.

    A module notes such a weight as a plain attribute, which is that of its last run.
    """
    for hook in hooks:
        name = _computed_weight(hook)
        assert name is not None
        hook(module, ())
        weight = vars(module).pop(name)
        module.register_parameter(name, torch.nn.Parameter(weight.detach(), requires_grad=False))


def _computed_weight(hook: _Hook) -> str | None:
    """The name of the weight that a hook computes; None if it does anything else."""
    if isinstance(hook, BasePruningMethod):
        return str(hook._tensor_name)
    return str(hook.name) if isinstance(hook, SpectralNorm | WeightNorm) else None


def check_modules(model: torch.nn.Module) -> None:
    """Raises: ModelError if a module has a hook of the caller's own, is quantized, or is tied to the original."""
    for place, module in model.named_modules():
        name = f"the model's {place}" if place else f"the {type(module).__name__}"
        for hook in forward_hooks(module):
            if _computed_weight(hook) is None:  # what it does in batches, threads and runs that end early nobody knows
                called = getattr(hook, "__qualname__", type(hook).__qualname__)
                raise ModelError(
                    f"{name} has the forward hook {called}, and attnscan runs no hooks",
                    "remove it before, with remove() of what registering it returned",
                )
        if type(module).__module__.startswith("torch.ao."):
            raise ModelError(  # with a scale for all numbers of a batch: scores would hang on which inputs meet in one
                f"{name} is quantized, and rounds an input by those beside it in a batch",
                "give the model as it was before it was quantized",
            )
        for key, values in (*module._parameters.items(), *module._buffers.items()):
            if isinstance(values, Tensor) and not _is_plain(values):
                raise ModelError(
                    f"{name} holds its {key} as a {type(values).__name__} ({values.layout}), not as plain numbers",
                    "give the model with plain weights, as from_pretrained() returns it",
                )
        functions = ((key, value) for key, value in vars(module).items() if key != _NOT_COPIED)
        if key := next((key for key, value in functions if _refers_to_modules(value)), None):
            raise ModelError(
                f"the {key} of {name} is compiled, or a function that refers to modules, and a copy would run these",
                "give the model without it; of a module that torch.compile() returned, its _orig_mod",
            )


def _is_plain(values: Tensor) -> bool:
    strided = values.layout == torch.strided and not values.is_quantized
    return strided and not is_traceable_wrapper_subclass(values) and not torch.nn.parameter.is_lazy(values)


def _refers_to_modules(value: object) -> bool:
    """Whether a function holds modules, or methods of them: to copy a function copies nothing of what it holds."""
    cells = (value.__closure__ or ()) if isinstance(value, FunctionType) else ()
    held = [cell.cell_contents for cell in cells if cell != CellType()]  # an empty one has no contents
    return any(
        isinstance(getattr(content, "__self__", content), torch.nn.Module) or _refers_to_modules(content)
        for content in held
    )
