"""Running somebody else's model: what it takes, what it says when it fails, in halves where memory is short."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from attnscan.errors import CaptureError, MemoryFullError, out_of_memory
from attnscan.inputs.library_calls import WhileInside
from attnscan.results.terms import counted

BLOCK_SPARSE = "block_sparse"
READ_IN_FULL = "attention is computed in full; the model's own is of blocks (block_sparse), where no row is whole"
"""What Big Bird calls its own attention; in its first run on a short input it turns to full attention for good."""
T = TypeVar("T")
R = TypeVar("R")


def _silence() -> tuple[int, bool]:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    return before


def _speak(before: tuple[int, bool]) -> None:
    from transformers.utils import logging

    verbosity, bars = before
    logging.set_verbosity(verbosity)
    if bars:
        logging.enable_progress_bar()


_quiet = WhileInside(_silence, _speak)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Progress bars, reports of unused task heads and advice are not for our users; what matters is raised."""
    with _quiet:
        yield


@contextmanager
def attention_of(model: Any, name: str) -> Iterator[bool]:
    """Run the model with the attention of that name, and put its own back; whether it took it.

    Layers that a caller made by copying others hold configs of their own, which follow the model's.
    """
    configs = {id(model.config): model.config}
    for module in model.modules():
        if hasattr(config := getattr(module, "config", None), "_attn_implementation_internal"):
            configs[id(config)] = config
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    try:
        model.set_attn_implementation(name)
        for config in configs.values():
            if type(config) is type(model.config):
                config._attn_implementation_internal = model.config._attn_implementation_internal
        yield model.config._attn_implementation == name
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def block_sparse_part(model: Any) -> Any | None:
    """The part of a Big Bird that computes attention of blocks alone; None of any other model."""
    return next((module for module in model.modules() if getattr(module, "attention_type", "") == BLOCK_SPARSE), None)


@contextmanager
def at_rest(model: Any) -> Iterator[None]:
    """Run a model in evaluation mode, with full attention, and put it back as it was."""
    training = [(module, module.training) for module in model.modules()]
    sparse = block_sparse_part(model)
    compiled = any(m._compiled_call_impl is not None or hasattr(m, "_orig_mod") for m in model.modules())
    try:
        model.eval()
        if sparse is not None:
            sparse.set_attention_type("original_full")
        with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
            yield
    finally:
        if sparse is not None:
            sparse.set_attention_type(BLOCK_SPARSE)
        for module, mode in training:
            module.training = mode


@quiet_transformers()
@torch.inference_mode()
def forward(model: Any, inputs: dict[str, Tensor]) -> Any:
    """Run a model as it is, without a tap. Raises: CaptureError if it fails on this input."""
    try:
        return model(**accepted(model, inputs))
    except Exception as error:
        raise failed(model, error) from error


def failed(model: Any, error: Exception) -> CaptureError | MemoryFullError:
    """What went wrong inside somebody else's model."""
    if _no_room(error):
        return MemoryFullError(
            f"the inputs do not fit into the device's memory with {type(model).__name__}",
            "use --device cpu, --dtype float16, fewer --batch-tokens, or shorter inputs",
        )
    return CaptureError(
        f"the model {type(model).__name__} fails on this input: {first_line(error)[:200]}",
        "see that its config.json, weights and tokenizer belong together, or try --device cpu",
    )


def first_line(error: BaseException) -> str:
    """What an error of somebody else's says at its start; its class where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def refused(model: Any, why: str) -> CaptureError:
    """The error for a model whose architecture is not to be read."""
    return CaptureError(
        f"the architecture {type(model).__name__} {why}",
        "use a model with softmax attention, such as BERT, RoBERTa, DistilBERT, ALBERT or ModernBERT",
    )


def check_finite(values: Tensor, what: str) -> None:
    """Raises: CaptureError if a model says NaN or infinity: numbers that are compared with it mean nothing."""
    if not values.isfinite().all():
        raise not_finite(what)


def not_finite(what: str, where: str = "") -> CaptureError:
    """The error for a model whose numbers are not all finite."""
    return CaptureError(
        f"{what} are not finite{where}",
        "the checkpoint's weights hold NaN or infinity, or --dtype float16 overflows: try float32",
    )


def _no_room(error: Exception) -> bool:
    """Whether memory ran out; torch has a class for an accelerator's alone."""
    return isinstance(error, torch.OutOfMemoryError) or out_of_memory(error)


def accepted(model: Any, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """The inputs that this model's forward takes, and its cache switched off where it has one."""
    parameters = named_arguments(model)
    taken: dict[str, Any] = {name: value for name, value in inputs.items() if name in parameters}
    segments = getattr(model.config, "type_vocab_size", None)
    if isinstance(segments, int) and segments < 2:
        taken.pop("token_type_ids", None)  # a tokenizer that gives segments to a model that has none
    if "use_cache" in parameters:
        taken["use_cache"] = False
    return taken


def named_arguments(model: Any) -> Mapping[str, inspect.Parameter]:
    """What a model's forward takes by name; of one that takes *args, what the class above it takes.

    Raises: CaptureError if no class says.
    """
    above = (vars(kind)["forward"] for kind in type(model).__mro__ if "forward" in vars(kind))
    for forward in (model.forward, *above):
        parameters = inspect.signature(forward).parameters
        if all(parameter.kind is not inspect.Parameter.VAR_POSITIONAL for parameter in parameters.values()):
            return parameters
    raise CaptureError(
        f"the forward of {type(model).__name__} takes *args alone, and does not say which inputs it reads",
        "name its inputs: def forward(self, input_ids, attention_mask=None, ...)",
    )


_BEHIND_ATTENTION = "feed_forward_chunk"
"""What transformers calls a layer's part behind its attention, wherever it can be run in chunks."""


def last_feed_forward(encoder: Any) -> Any | None:
    """The last of a model's layers that have such a part."""
    return next((module for module in reversed(list(encoder.modules())) if hasattr(module, _BEHIND_ATTENTION)), None)


_sees = threading.local()
"""The `places` that each thread's runs keep of the hidden states, or `early` of the last layer's."""


@contextmanager
def head_sees_only(encoder: Any, places: tuple[Tensor, Tensor], *, early: bool = False) -> Iterator[None]:
    """Let a task head work on some places alone, as one sequence of them, in this thread's runs.

    With `early`, so does all behind the last layer's attention; that can be wrong, since the layer that has
    `last_feed_forward` need not be the last that looks at other positions.
    Shape: `places` are rows and columns of the batch, each [place].
    """

    def keep(_module: Any, _arguments: Any, output: Any) -> Any:
        if getattr(_sees, "places", None) is places:
            output.last_hidden_state = output.last_hidden_state[places][None]
        return output

    with _in_chunks(last_feed_forward(encoder)) if early else nullcontext():
        hook = None if early else encoder.register_forward_hook(keep)
        setattr(_sees, "early" if early else "places", places)
        try:
            yield
        finally:
            setattr(_sees, "early" if early else "places", None)
            if hook is not None:
                hook.remove()


_chunked: dict[int, int] = {}
_chunking = threading.Lock()


@contextmanager
def _in_chunks(layer: Any) -> Iterator[None]:
    """Let a layer work behind its attention on the places that each thread keeps; several threads may ask for it."""
    work = type(layer).feed_forward_chunk.__get__(layer)
    with _chunking:
        _chunked[id(layer)] = _chunked.get(id(layer), 0) + 1
        vars(layer)[_BEHIND_ATTENTION] = lambda states: work(
            states if (places := getattr(_sees, "early", None)) is None else states[places][None]
        )
    try:
        yield
    finally:
        with _chunking:
            _chunked[id(layer)] -= 1
            if not _chunked[id(layer)]:
                del _chunked[id(layer)], vars(layer)[_BEHIND_ATTENTION]


def in_halves(
    items: Sequence[T], work: Callable[[Sequence[T]], R], tokens: Callable[[T], int], device: torch.device | str
) -> Iterator[R]:
    """Work on some items: on all at once, or in halves where the device's memory does not hold them.

    Raises: MemoryFullError if it does not hold a single one, which has so many `tokens`.
    """
    try:
        result = work(items)
    except (RuntimeError, MemoryError, MemoryFullError) as error:
        if not _no_room(error):
            raise
        if len(items) == 1:
            on_cpu = torch.device(device).type == "cpu"
            raise MemoryFullError(
                f"one input of {tokens(items[0])} tokens does not fit into the memory of the {device}",
                "use shorter inputs" if on_cpu else "use --device cpu, --dtype float16, or shorter inputs",
            ) from None
    else:
        yield result
        return
    torch.cuda.empty_cache()  # only now: the error held on to what was there when it was raised
    middle = len(items) // 2
    yield from in_halves(items[:middle], work, tokens, device)
    yield from in_halves(items[middle:], work, tokens, device)


def free_memory() -> int | None:
    """Bytes of main memory that this process may still take, by the system and by its control group.

    None where neither tells.
    """
    limits = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        group = Path("/sys/fs/cgroup")
        limits.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(limits)) if limits else None


def check_weights(
    heads: int, tokens: int, copies: int, remedy: str, queries: int | None = None, beside: int = 0
) -> None:
    """Check that weights of some heads on one input fit into main memory, so many times over, before any is made.

    Of `queries` alone if these are given. `beside` the weights, a run takes so many bytes.
    Raises: MemoryFullError, which says how many tokens, or queries, would fit.
    """
    number, known = copies * heads * torch.float32.itemsize, free_memory()
    needed, free = number * tokens * (queries or tokens), max(0, (known or 0) - beside)
    if known is None or needed <= free:
        return
    rows = "" if queries is None else f"{counted(queries, 'query', 'queries')} of "
    fit = f"{math.isqrt(free // number) if queries is None else free // (number * tokens):,}"
    raise MemoryFullError(
        f"the weights of {rows}{counted(heads, 'head')} on {tokens:,} tokens take {needed / 1e9:.1f} GB, and "
        f"{free / 1e9:.1f} GB of memory are free: {fit} {'tokens' if queries is None else 'queries'} would fit",
        remedy,
    )
