"""Run somebody else's model: its inputs, how it is set up and put back, and how it fails."""

import inspect
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import CaptureError, MemoryFullError, out_of_memory

_WRITTEN = "_torchdynamo_orig_callable"
"""What torch.compile makes of a function has the function under this name."""
_logging_lock = threading.RLock()
_logging_before: list[tuple[int, bool]] = []
"""The verbosity, and whether bars were shown, as each run found them; the first run's first."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide progress bars, reports of unused task heads and advice; what matters is raised.

    It is quiet until the last run has ended, in whichever order they do: one left behind ends when
    it is collected.
    """
    with warnings.catch_warnings():
        # in a notebook without ipywidgets, which would show a bar that nobody asks for
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers.utils import logging

    with _logging_lock:
        _logging_before.append((logging.get_verbosity(), logging.is_progress_bar_enabled()))
        logging.set_verbosity(logging.CRITICAL)
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with _logging_lock:
            verbosity, has_bars = _logging_before.pop()
            logging.set_verbosity(verbosity)
            if has_bars:
                logging.enable_progress_bar()


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """Run a model in evaluation mode, and put it back as it was."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with _as_written(model):
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def _as_written(model: Any) -> Iterator[None]:
    """Run what is compiled as it was written, since a watch could not follow it.

    These are modules that are compiled, and those whose `forward` is.
    """
    changed: list[tuple[Any, str, Any]] = []
    for module in model.modules():
        own = vars(module)
        if own.get("_compiled_call_impl") is not None:
            changed.append((module, "_compiled_call_impl", own["_compiled_call_impl"]))
        if hasattr(own.get("forward"), _WRITTEN):
            changed.append((module, "forward", own["forward"]))
    try:
        for module, name, compiled in changed:
            written = getattr(compiled, _WRITTEN) if name == "forward" else None
            setattr(module, name, written)
        yield
    finally:
        for module, name, compiled in changed:
            setattr(module, name, compiled)


@torch.inference_mode()
def forward(model: Any, inputs: dict[str, Tensor]) -> Any:
    """Run a model and return its output. Raises: CaptureError if it fails on this input."""
    try:
        return model(**accepted_inputs(model, inputs))
    except Exception as error:
        raise model_failure(model, error) from error


def accepted_inputs(model: Any, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """The inputs that this model's forward takes, and its cache switched off where it has one."""
    parameters = named_arguments(model)
    accepted: dict[str, Any] = {name: value for name, value in inputs.items() if name in parameters}
    segments = getattr(model.config, "type_vocab_size", None)
    if isinstance(segments, int) and segments < 2:
        # The tokenizer gives segments to a model that has none
        accepted.pop("token_type_ids", None)
    if "use_cache" in parameters:
        accepted["use_cache"] = False
    return accepted


def named_arguments(model: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a model's forward; of one that takes *args, those of a class above it."""
    for kind in type(model).__mro__:
        if "forward" in vars(kind):
            parameters = inspect.signature(vars(kind)["forward"]).parameters
            if "input_ids" in parameters:
                return parameters
    return {}


@contextmanager
def restrict_task_head(encoder: Any, places: tuple[Tensor, Tensor]) -> Iterator[None]:
    """Let a task head work on some [row, column] `places` alone, as one sequence of them.

    This holds in this thread's runs.
    """
    thread = threading.get_ident()

    def keep_places(_module: Any, _arguments: Any, output: Any) -> Any:
        if threading.get_ident() == thread:
            output.last_hidden_state = output.last_hidden_state[places][None]
        return output

    with encoder.register_forward_hook(keep_places):
        yield


def model_failure(model: Any, error: Exception) -> CaptureError | MemoryFullError:
    """The error for a model that failed inside."""
    if out_of_memory(error):
        return MemoryFullError(
            "the inputs do not fit into memory with the model",
            "use shorter inputs, fewer ``batch_tokens`` or, if it is a GPU's, ``device=cpu`` or "
            "``dtype=float16``",
        )
    return CaptureError(
        f"the model {type(model).__name__} fails on this input: {first_line(error)[:200]}",
        "see that its config.json, weights and tokenizer belong together, or try ``device=cpu``",
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, with the next one if it ends in a colon.

    Of an error without a message, the name of its class.
    """
    message = str(error).strip() or type(error).__name__
    line, *others = message.splitlines()
    if others and line.endswith(":"):
        line = f"{line} {others[0].strip()}"
    return line.rstrip(",:")


def check_finite(values: Tensor, name: str) -> None:
    """Raises: CaptureError if any value is NaN or infinite: comparing it means nothing."""
    if not values.isfinite().all():
        raise not_finite(name)


def not_finite(name: str, place: str = "") -> CaptureError:
    """The error for a model whose numbers are not all finite."""
    return CaptureError(
        f"{name} are not finite{place}",
        "the checkpoint's weights hold NaN or infinity, or ``dtype=float16`` overflows: "
        "try float32",
    )
