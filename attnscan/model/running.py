"""Running somebody else's model: how it is set up and put back, its errors, its calls of attention, work side by side.

Which calls are of which kind and layer is learnt from a probe run, on a source of 5 tokens and a target of 3: their
shapes say it, where `is_decoder` and `is_causal` are wrong in several families. A layer's number is that of its module:
in Jamba or Qwen3-Next only some layers have attention.
"""

import inspect
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnscan.errors import CaptureError, MemoryFullError, out_of_memory
from attnscan.model.watch import AttentionCall, SoftmaxWatch
from attnscan.results.terms import AttentionKind, Grid

ATTENTION = "attnscan"  # the name of our attention function among those of transformers
_MOST_WORKERS = 16  # each holds Python's lock for some hundredths of its time
_MOST_TOKENS = 65_536  # of all batches that run at once, for memory's sake
_MOST_CELLS = (
    1 << 26
)  # of one head's weights, likewise: each is held some three times over, in float32
_TOKEN = 5  # of which the probe is: of any vocabulary, and padding in none
_SHAPES = dict(zip(AttentionKind, ((5, 5), (5, 5), (3, 3), (3, 5)), strict=True))
"""How many queries and keys each kind of attention has in the probe."""
_MODIFIERS = (
    "s_aux",
    "sinks",
    "softcap",
)  # what eager attention can add to the logits, and the tap does not
_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits
Item = TypeVar("Item")
R = TypeVar("R")

_loudness_lock = threading.RLock()
_loudness = list[
    tuple[int, bool]
]()  # verbosity, and whether bars are shown, as each run found them, the first first


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Progress bars, reports of unused task heads and advice are not for our users; what matters is raised.

    It is quiet until the last run has ended, in whichever order they do: one left behind ends when it is collected.
    """
    from transformers.utils import logging

    with _loudness_lock:
        _loudness.append((logging.get_verbosity(), logging.is_progress_bar_enabled()))
        logging.set_verbosity(logging.CRITICAL)
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with _loudness_lock:
            verbosity, bars = _loudness.pop()
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()


_runs = threading.local()


@contextmanager
def attending(attend: Callable[..., Tensor]) -> Iterator[None]:
    """Let a function like `fused` compute the attention of models that are turned to `ATTENTION`, in this thread."""
    _runs.attend = attend
    try:
        yield
    finally:
        del _runs.attend


def fused(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **rest: Any,
) -> Tensor:
    """Compute attention by torch's fused kernel; the mask alone decides, even in a module that calls itself causal."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    rest = {
        "scaling": rest.get("scaling"),
        "position_bias": rest.get("position_bias"),
        "is_causal": False,
    }
    output: Tensor = sdpa_attention_forward(module, query, key, value, attention_mask, **rest)[0]
    return output


@contextmanager
def attention_of(model: Any, name: str) -> Iterator[bool]:
    """Run the model with the attention of that name, and put its own back; yield whether the model took it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    # Without a mask function of the same name transformers passes no mask at all, and padding
    # soaks up attention: https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/masking_utils.py
    AttentionInterface.register(
        ATTENTION, lambda *call, **rest: (getattr(_runs, "attend", fused)(*call, **rest), None)
    )
    AttentionMaskInterface.register(ATTENTION, eager_mask)
    configs: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    before = [
        (c, c._attn_implementation_internal)
        for c in configs
        if hasattr(c, "_attn_implementation_internal")
    ]
    try:
        model.set_attn_implementation(name)
        yield model.config._attn_implementation == name
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """Run a model in evaluation mode, and put it back as it was."""
    training = [(module, module.training) for module in model.modules()]
    # What is compiled runs as it was written: a watch could not follow it
    compiled = {
        module: call
        for module in model.modules()
        if (call := module._compiled_call_impl) is not None
    }
    try:
        model.eval()
        for module in compiled:
            module._compiled_call_impl = None
        yield
    finally:
        for module, call in compiled.items():
            module._compiled_call_impl = call
        for module, mode in training:
            module.training = mode


@torch.inference_mode()
def forward(model: Any, inputs: dict[str, Tensor]) -> Any:
    """Run a model and return its output. Raises: CaptureError if it fails on this input."""
    try:
        return model(**accepted_inputs(model, inputs))
    except Exception as error:
        raise failure(model, error) from error


def failure(model: Any, error: Exception) -> CaptureError | MemoryFullError:
    """The error for a model that failed inside."""
    if out_of_memory(error):
        return MemoryFullError(
            "the inputs do not fit into memory with the model",
            "use shorter inputs, fewer --batch-tokens or, if it is a GPU's, --device cpu or --dtype float16",
        )
    return CaptureError(
        f"the model {type(model).__name__} fails on this input: {first_line(error)[:200]}",
        "see that its config.json, weights and tokenizer belong together, or try --device cpu",
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, with the next if it ends in a colon; its class where it has none."""
    first, *others = (str(error).strip() or type(error).__name__).splitlines()
    return (f"{first} {others[0].strip()}" if others and first.endswith(":") else first).rstrip(
        ",:"
    )


def refusal(model: Any, reason: str) -> CaptureError:
    """The error for a model whose architecture is not to be read."""
    return CaptureError(
        f"the architecture {type(model).__name__} {reason}",
        "use a model with softmax attention, such as BERT, RoBERTa, DistilBERT, ALBERT or ModernBERT",
    )


def check_finite(values: Tensor, name: str) -> None:
    """Raises: CaptureError if any value is NaN or infinite: no comparison with it means anything."""
    if not values.isfinite().all():
        raise not_finite(name)


def not_finite(name: str, place: str = "") -> CaptureError:
    """The error for a model whose numbers are not all finite."""
    return CaptureError(
        f"{name} are not finite{place}",
        "the checkpoint's weights hold NaN or infinity, or --dtype float16 overflows: try float32",
    )


def accepted_inputs(model: Any, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """The inputs that this model's forward takes, and its cache switched off where it has one."""
    parameters = named_arguments(model)
    accepted: dict[str, Any] = {name: value for name, value in inputs.items() if name in parameters}
    segments = getattr(model.config, "type_vocab_size", None)
    if isinstance(segments, int) and segments < 2:
        accepted.pop(
            "token_type_ids", None
        )  # a tokenizer that gives segments to a model that has none
    if "use_cache" in parameters:
        accepted["use_cache"] = False
    return accepted


def named_arguments(model: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a model's forward; of one that takes *args, those of a class above it; else none."""
    forwards = (vars(kind)["forward"] for kind in type(model).__mro__ if "forward" in vars(kind))
    signatures = (inspect.signature(forward).parameters for forward in forwards)
    return next((parameters for parameters in signatures if "input_ids" in parameters), {})


@contextmanager
def restrict_task_head(encoder: Any, places: tuple[Tensor, Tensor]) -> Iterator[None]:
    """Let a task head work on some [row, column] `places` alone, as one sequence of them, in this thread's runs."""
    thread = threading.get_ident()

    def keep(_module: Any, _arguments: Any, output: Any) -> Any:
        if threading.get_ident() == thread:
            output.last_hidden_state = output.last_hidden_state[places][None]
        return output

    with encoder.register_forward_hook(keep):
        yield


def free_memory() -> int | None:
    """Bytes of main memory that are free, by the system and by this process's control group; None if neither tells."""
    free, group = list[int](), Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        free += [
            1024 * int(kib)
            for kib in re.findall(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
        ]
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        free.append(
            int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
        )
    return max(0, min(free)) if free else None


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raises: MemoryFullError if main memory is known not to hold so many bytes more, before any is taken."""
    free = free_memory()
    if free is not None and needed > free:
        raise MemoryFullError(
            f"{what} takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free",
            remedy,
        )


def most_workers(loaded: Any, batch_tokens: int | None, longest: int) -> int:
    """How many batches of a model may run at once, of inputs of so many tokens: one a core, and one on a GPU."""
    # Such rotary frequencies change with the longest input so far: another thread would disturb them
    growing = any(
        getattr(part, "rope_type", None) in ("dynamic", "longrope")
        for part in loaded.model.modules()
    )
    if loaded.device.type != "cpu" or growing:
        return 1
    tokens: int = max(loaded.room(batch_tokens), longest)
    return max(
        1,
        min(
            torch.get_num_threads(),
            _MOST_WORKERS,
            _MOST_TOKENS // tokens,
            _MOST_CELLS // longest**2,
        ),
    )


def is_too_long(length: int, workers: int) -> bool:
    """Whether memory does not take as many inputs of that length as there are workers."""
    return workers * length**2 > _MOST_CELLS


def parallel_map(
    workers: int, items: Iterable[Item], work: Callable[[Item], R]
) -> Generator[tuple[Item, R], None, None]:
    """Do some work on each item, in so many threads, which divide the cores. Yields in the order of the items.

    A forward pass over all cores makes them meet after each of a layer's dozen products; a core that runs whole
    batches waits for none. Items are taken while others are worked on. Closing the generator waits for what runs.
    """
    cores, begun = torch.get_num_threads(), deque[tuple[Item, Future[R]]]()
    pool = ThreadPoolExecutor(
        workers, "attnscan-worker", lambda: torch.set_num_threads(max(1, cores // workers))
    )
    try:
        for item in items:
            begun.append((item, pool.submit(work, item)))
            if len(begun) > 2 * workers:
                yield begun[0][0], begun.popleft()[1].result()
        while begun:
            yield begun[0][0], begun.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)  # threads that are yet to come start with what was set last


@dataclass(frozen=True)
class ModelCalls:
    """The calls of attention in one run of a model."""

    layers: dict[int, int]
    """By the number of a call, where its layer stands in the grid; those of other kinds are not read."""
    count: int  # of all kinds
    grid: Grid  # the heads of the kind that is read
    uses_tap: bool  # whether the model calls the registered attention function; else it is watched


@dataclass(frozen=True)
class ProbedCall:
    """One call in a probe run."""

    layer: int  # the number in the name of the module that it is in; -1 if there is none
    heads: int
    shape: tuple[int, ...]  # how many queries and keys it has
    is_plain: bool  # whether it is a softmax over the keys, to which nothing else was added


def calls_of(model: Any, kind: AttentionKind) -> ModelCalls:
    """Find out how a kind of a model's attention is read: by the tap, if it shows as many layers as there are."""
    ids = torch.full((1, 5), _TOKEN, device=next(model.parameters()).device)
    inputs, layers = (
        accepted_inputs(model, {"input_ids": ids, "decoder_input_ids": ids[:, :3]}),
        None,
    )
    if kind is AttentionKind.ONLY:
        inputs.pop("decoder_input_ids", None)
        layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    tapped = _arranged(_probed(model, inputs, watched=False), kind, tapped=True)
    if isinstance(tapped, ModelCalls) and tapped.grid.shape[0] == layers:
        return tapped
    watched = _arranged(_probed(model, inputs, watched=True), kind, tapped=False)
    if isinstance(watched, str):
        raise refusal(model, watched)
    return (
        tapped
        if isinstance(tapped, ModelCalls) and tapped.grid.shape[0] == watched.grid.shape[0]
        else watched
    )


def _probed(model: Any, inputs: dict[str, Any], *, watched: bool) -> list[ProbedCall]:
    """The calls of attention in a run: of our function, or of eager attention as the watch sees them."""
    calls, layers = list[ProbedCall](), [-1]  # of modules that were entered, the numbers of layers

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor | None, **rest: Any
    ) -> Tensor:
        is_plain = all(rest.get(name) is None for name in _MODIFIERS)
        calls.append(
            ProbedCall(layers[-1], query.shape[1], (query.shape[2], key.shape[2]), is_plain)
        )
        return fused(module, query, key, value, *mask, **rest)

    def note(call: AttentionCall) -> None:
        (_, heads, *shape), weights = call.weights.shape, call.weights.float()
        error, tolerance = (weights.sum(-1) - 1).abs().max(), _TOLERANCE[call.weights.itemsize == 2]
        is_plain = not weights.isfinite().all() or (weights.min() >= 0 and error <= tolerance)
        calls.append(ProbedCall(layers[-1], heads, tuple(shape), bool(is_plain)))

    numbered = [
        (module, re.search(r"(?:^|\.)(\d+)(?=\.|$)", name))
        for name, module in model.named_modules()
    ]
    entering = [(module, int(number[1])) for module, number in numbered if number]
    hooks = [
        module.register_forward_pre_hook(lambda *_, n=number: layers.append(n))
        for module, number in entering
    ]
    name, watch = ("eager", SoftmaxWatch(note, 1)) if watched else (ATTENTION, nullcontext())
    try:
        with attention_of(model, name) as took, attending(attend), torch.inference_mode(), watch:
            model(**inputs)
    except Exception as error:
        raise failure(model, error) from error
    finally:
        for hook in hooks:
            hook.remove()
    if watched and not took:
        raise refusal(model, "cannot be turned to eager attention once it is loaded")
    return calls


def _arranged(
    calls: Sequence[ProbedCall], kind: AttentionKind, *, tapped: bool
) -> ModelCalls | str:
    """The calls of one kind, or why a model's attention is none that is read."""
    shape, is_only = _SHAPES[kind], kind is AttentionKind.ONLY
    numbers = [number for number, call in enumerate(calls) if call.shape == shape]
    other_shapes = [
        call.shape for call in calls if call.shape not in ([shape] if is_only else _SHAPES.values())
    ]
    if other_shapes and (tapped or is_only or not numbers):
        if numbers[:1] == [0]:
            return "pools its tokens: not all layers have as many as the input"
        return f"computes weights of shape {list(other_shapes[0])}, where each of 5 tokens should look at each"
    if not numbers:
        return f"computes no softmax attention{'' if is_only else f' of its {kind.word} kind'} over all tokens"
    heads, layers = (
        {calls[number].heads for number in numbers},
        tuple(calls[number].layer for number in numbers),
    )
    if strange := [layer for layer, number in enumerate(numbers) if not calls[number].is_plain]:
        return f"computes numbers in layer {strange[0]} that are not a softmax over the tokens"
    if len(heads) != 1:
        return "has more heads in some layers than in others"
    rising = layers == tuple(sorted(set(layers))) and layers[0] >= 0
    if not (tapped or rising) and len(set(layers) - {-1}) > 1 and len(numbers) > len(set(layers)):
        return "computes several attentions in a layer"
    # Layers of encoder-decoders all have attention, and are counted; so are those that share a module, as ALBERT's.
    grid = Grid((len(numbers), calls[numbers[0]].heads), kind, layers if is_only and rising else ())
    return ModelCalls(
        {number: layer for layer, number in enumerate(numbers)}, len(calls), grid, tapped
    )
