"""A pretended accelerator: code for a device, run and checked on a machine that has none.

    with pretended_device("cuda", watched=DIRECTORY) as ledger:
        ...                      # torch.cuda.is_available() is true; tensors can be moved to "cuda"
    assert not ledger.refused    # what CUDA refuses was also raised where it happened
    print(ledger)                # every wait of the host, with the line that caused it

All tensors are CPU tensors. Those on the device bear a mark on their storage, which views share. A
`TorchFunctionMode` answers what Python asks (`.device`, `.to`, `device=`, `.numpy()`); a
`TorchDispatchMode` sees every operation that reaches a kernel, passes the mark on, and refuses
operands of two devices. Threads that start inside enter both, too.

Refused: operands on two devices (tensors without dimensions and indices may be on the CPU, as on
CUDA); `.numpy()` and `np.asarray` of a device tensor; a CPU generator for numbers on the device;
float64 on "mps". Counted by line of `watched` code: copies between devices; values read by the host
(`item`, `bool`, `tolist`, `equal`); shapes that depend on values (`nonzero`, boolean indices,
`unique`, ...); operations.

Not seen: numbers, speed, memory, formats of the device's own kernels; the varying order of atomic
additions; races of streams and `non_blocking` copies; several devices; its generators; CPU tensors
that torch's own Python functions make beside operands on the device; threads that ran before. Which
operations take CPU tensors without dimensions is approximate.
"""

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_READS = {"_local_scalar_dense": "item", "equal": "equal", "is_nonzero": "bool"}
"""Operations that hand a value to the host."""
_SIZES = {
    "nonzero": 1,
    "masked_select": 1,
    "_unique2": 1,
    "_unique": 1,
    "unique_dim": 1,
    "unique_consecutive": 1,
    "bincount": 2,
    "isin": 2,  # where it sorts
    "histc": 2,
    "_linalg_check_errors": 1,
    "linalg_eig": 1,
    "_linalg_svd": 1,
}
"""How often the host waits for a result's shape, or for an error."""
_INDEXED = {
    "index",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "_unsafe_index",
    "_unsafe_index_put",
}
_COPIES = {"copy_", "copy", "_foreach_copy_"}
_TAKES_SCALARS = {
    "where",
    "fill_",
    "fill",
    "masked_fill",
    "masked_fill_",
    "index_fill",
    "index_fill_",
}
"""Operations beside the pointwise ones that take CPU tensors without dimensions."""
_NO_KERNEL = {
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "detach",
    "lift_fresh",
    "alias",
    "_unsafe_view",
}
_MAKES_TENSORS = {torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor}
"""Functions that copy given values."""
_QUESTIONS = {
    getattr(Tensor, name).__get__: name for name in ("device", "is_cuda", "is_mps", "is_cpu")
}
_TWO_DEVICES = (
    "Expected all tensors to be on the same device, "
    "but found at least two devices, {} and cpu! ({})"
)
_NO_NUMPY = (
    "can't convert {} device type tensor to numpy. "
    "Use Tensor.cpu() to copy the tensor to host memory first."
)
_NO_GENERATOR = "Expected a '{}' device type for generator but found 'cpu'"
_NO_FLOAT64 = "Cannot convert a MPS Tensor to float64 dtype, which MPS does not support."


class Ledger:
    """What happened on the pretended device, by line of the watched code."""

    def __init__(self, device: torch.device, watched: str) -> None:
        self.device = device
        self.lock = threading.Lock()
        self._watched = watched
        self.refused: list[str] = []
        self.waits: Counter[tuple[str, str]] = Counter()
        """By kind and line: the host waits until the device is done."""
        self.copied: Counter[str] = Counter()
        """Bytes to the device, and from it."""
        self.operations: Counter[tuple[str, str]] = Counter()
        """Kernels at least, by name and line."""

    def where(self) -> str:
        """The innermost line of the watched code that runs; without one, of any but torch's."""
        frame: Any = sys._getframe(1)
        outside = ""
        while frame is not None:
            file = frame.f_code.co_filename
            if file != __file__:
                if self._watched and file.startswith(self._watched):
                    return f"{file.removeprefix(self._watched).lstrip('/')}:{frame.f_lineno}"
                if not outside and "/torch/" not in file:
                    outside = f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return outside

    def wait(self, kind: str, times: int = 1) -> None:
        """Note that the host waits."""
        with self.lock:
            self.waits[kind, self.where()] += times

    def copy(self, values: Tensor, *, to_device: bool, wait: bool = True) -> None:
        """Note a copy between the devices."""
        way = "to the device" if to_device else "from the device"
        self.copied[way] += values.numel() * values.itemsize
        if wait and values.numel():
            self.wait(f"copy {way}")

    def operation(self, name: str) -> None:
        """Note an operation."""
        with self.lock:
            self.operations[name, self.where()] += 1

    def refuse(self, error: type[Exception], message: str) -> None:
        """Raise what the device would raise, and note where."""
        self.refused.append(f"{self.where()}: {message}")
        raise error(message)

    def put(self, values: Tensor, *, on_device: bool = True) -> None:
        """Mark a tensor as on the device or on the CPU."""
        no_storage = contextlib.suppress(RuntimeError, NotImplementedError)
        with torch._C.DisableTorchFunction(), no_storage:
            values.untyped_storage().pretended = on_device  # type: ignore[attr-defined]
        if on_device and self.device.type == "mps" and values.dtype == torch.float64:
            self.refuse(TypeError, _NO_FLOAT64)

    def __str__(self) -> str:
        operations = sum(self.operations.values())
        waits = sum(self.waits.values())
        lines = [f"{operations:,} operations, {waits:,} waits, {dict(self.copied)}"]
        for (kind, where), count in self.waits.most_common():
            lines.append(f"{count:6,}  {kind:<34} {where}")
        lines += [f"REFUSED {message}" for message in self.refused]
        return "\n".join(lines)


def is_on_device(values: Tensor) -> bool:
    """Whether a tensor is on the pretended device."""
    no_storage = contextlib.suppress(RuntimeError, NotImplementedError)
    with torch._C.DisableTorchFunction(), no_storage:
        return bool(getattr(values.untyped_storage(), "pretended", False))
    return False


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """All tensors among some arguments, those in lists included."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, list | tuple):
            found += _tensors(value)
        elif isinstance(value, Tensor):
            found.append(value)
    return found


class _PythonMode(TorchFunctionMode):
    """What Python asks of torch."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.is_within = False
        """Whether a function runs that works on the device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _QUESTIONS:
            return self._answer(func, args)
        if func in (Tensor.to, Tensor.type_as, Tensor.cuda, Tensor.cpu):
            return self._move(func, *args, **kwargs)
        device = kwargs.get("device")
        kind = self.ledger.device.type
        has_operand = any(is_on_device(values) for values in _tensors((*args, *kwargs.values())))
        is_target = has_operand if device is None else torch.device(device).type == kind
        self._check(func, kwargs, has_operand=has_operand, is_target=is_target)
        if device is not None and is_target:
            kwargs["device"] = torch.device("cpu")
        was_within = self.is_within
        self.is_within = was_within or has_operand or is_target
        try:
            result = func(*args, **kwargs)
        finally:
            self.is_within = was_within
        if func in _MAKES_TENSORS:
            return self._copy_values(func, args, result, is_target=is_target, device=device)
        is_placed = device is not None or func is Tensor.__deepcopy__
        if is_placed and isinstance(result, Tensor):
            self.ledger.put(result, on_device=is_target)
        return result

    def _answer(self, func: Any, args: Any) -> Any:
        """Answer a question about a tensor's place."""
        if not is_on_device(args[0]):
            return func(*args)
        device = self.ledger.device
        answers = {"device": device, f"is_{device.type}": True}
        return answers.get(_QUESTIONS[func], False)

    def _check(
        self, func: Any, kwargs: dict[str, Any], *, has_operand: bool, is_target: bool
    ) -> None:
        """Refuse what the device refuses, and note what the host waits for."""
        device = self.ledger.device
        if has_operand and func in (Tensor.numpy, Tensor.__array__) and not kwargs.get("force"):
            self.ledger.refuse(TypeError, _NO_NUMPY.format(device))
        if has_operand and func in (Tensor.tolist, Tensor.numpy):
            self.ledger.wait(f"read by the host: {func.__name__}")
        if kwargs.get("generator") is not None and is_target:  # the device has none here
            self.ledger.refuse(RuntimeError, _NO_GENERATOR.format(device.type))

    def _copy_values(
        self, func: Any, args: Any, result: Tensor, *, is_target: bool, device: Any
    ) -> Tensor:
        """What is made of values; numbers in a list go to the CPU, unless it is `new_tensor`."""
        is_new = func is Tensor.new_tensor
        source = isinstance(args[0], Tensor) and is_on_device(args[0]) and not is_new
        target = is_target if device is not None or is_new else source
        if source != target:
            result = result.clone()
            self.ledger.copy(result, to_device=target)
        self.ledger.put(result, on_device=target)
        return result

    def _move(
        self, func: Any, values: Tensor, *args: Any, copy: bool = False, **kwargs: Any
    ) -> Any:
        """Tensor.to, .type_as, .cuda and .cpu."""
        ledger = self.ledger
        was_on_device = is_on_device(values)
        other = kwargs.get("other", args[0] if args else None)
        device = None
        dtype = None
        non_blocking = False
        layout = None
        if func in (Tensor.cuda, Tensor.cpu):
            device = ledger.device if func is Tensor.cuda else torch.device("cpu")
        elif isinstance(other, Tensor):
            device = ledger.device if is_on_device(other) else other.device
            dtype = other.dtype
        else:
            device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
        named: dict[str, Any] = {"dtype": dtype or values.dtype}
        if layout is not None:
            named["memory_format"] = layout
        if device is not None and device.type not in ("cpu", ledger.device.type):
            return values.to(device, copy=copy, **named)
        target = was_on_device if device is None else device.type == ledger.device.type
        moved = values.to(copy=copy or target != was_on_device, **named)
        if target != was_on_device:
            ledger.put(moved, on_device=target)
            ledger.copy(moved, to_device=target, wait=not (target and non_blocking))
        return moved


@cache
def _consists_of_others(func: Any) -> bool:
    """Whether an operation has no kernel of its own."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return composite in func.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), composite
    )


class _KernelMode(TorchDispatchMode):
    """What reaches a kernel."""

    def __init__(self, python: _PythonMode) -> None:
        super().__init__()
        self.python = python
        self.ledger = python.ledger

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        operands = _tensors((*args, *kwargs.values()))
        marks = [is_on_device(operand) for operand in operands]
        if _consists_of_others(func):  # in inference mode it comes whole
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if any(marks):
            self._check(func, name, operands, marks)
        result = func(*args, **kwargs)
        if not any(marks) and (operands or not self.python.is_within):
            return result
        if name not in _COPIES:
            for values in _tensors([result]):
                self.ledger.put(values)
        if not (func.is_view or name in _NO_KERNEL):
            self.ledger.operation(name)
        return result

    def _check(self, func: Any, name: str, operands: list[Tensor], marks: list[bool]) -> None:
        """Refuse what the device would refuse, and note what the host waits for."""
        ledger = self.ledger
        if name in _COPIES:
            if not all(marks):
                ledger.copy(operands[-1], to_device=marks[0])
            return
        foreign = [values for values, mark in zip(operands, marks, strict=True) if not mark]
        if name in _INDEXED:
            is_refused = self._check_index(name, operands, marks)
        else:
            takes_one = torch.Tag.pointwise in func.tags and name not in _READS
            scalars = len(foreign) if name in _TAKES_SCALARS else int(takes_one)
            is_refused = len(foreign) > scalars or any(values.dim() for values in foreign)
        if is_refused:
            ledger.refuse(RuntimeError, _TWO_DEVICES.format(ledger.device, name))
        if name == "where":
            for values in foreign:
                ledger.copy(values, to_device=True)
        self._note_waits(func, name, operands, marks)

    def _note_waits(self, func: Any, name: str, operands: list[Tensor], marks: list[bool]) -> None:
        """Note what the host waits for."""
        ledger = self.ledger
        if name in _READS:
            ledger.wait(f"read by the host: {_READS[name]}")
        elif name in _SIZES:
            ledger.wait(f"size by the host: {name}", _SIZES[name])
        elif name == "repeat_interleave" and func._overloadname != "self_int":
            ledger.wait(f"size by the host: {name}")
        elif name in ("masked_fill", "masked_fill_") and len(operands) == 3 and marks[2]:
            ledger.wait("read by the host: masked_fill's value")

    def _check_index(self, name: str, operands: list[Tensor], marks: list[bool]) -> bool:
        """Whether an index is refused; note copies of it, and sizes that depend on it."""
        is_put = "put" in name
        is_number = is_put and not marks[-1]
        is_refused = not marks[0] or (is_number and operands[-1].dim() > 0)
        # By a CPU number: needs no places
        is_masked_fill = is_number and operands[-1].numel() == 1
        last = -1 if is_put else None
        for index, mark in list(zip(operands, marks, strict=True))[1:last]:
            if not mark:
                self.ledger.copy(index, to_device=True)
            elif index.dtype in (torch.bool, torch.uint8) and not is_masked_fill:
                self.ledger.wait("size by the host: boolean index")
        return is_refused


@contextlib.contextmanager
def pretended_device(name: str = "cuda", watched: str = "") -> Iterator[Ledger]:
    """Pretend that a device, "cuda" or "mps", is here.

    Lines are named of files in the directory `watched`.
    """
    ledger = Ledger(torch.device(name, 0), watched)
    begin_thread = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        run = thread.run

        def run_inside() -> None:
            python = _PythonMode(ledger)
            with _KernelMode(python), python:
                run()

        thread.run = run_inside  # type: ignore[method-assign]
        begin_thread(thread)

    backend = torch.cuda if name == "cuda" else torch.backends.mps
    memory = (64 << 30, 64 << 30)
    answers: dict[str, Any] = {
        "device_count": mock.Mock(return_value=1),
        "current_device": mock.Mock(return_value=0),
        "empty_cache": mock.Mock(return_value=None),
        "mem_get_info": mock.Mock(return_value=memory),
        "get_device_name": mock.Mock(return_value="a pretended device"),
        "synchronize": lambda *_: ledger.wait("synchronize"),
    }
    python = _PythonMode(ledger)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(backend, "is_available", lambda: True))
        stack.enter_context(mock.patch.multiple(torch.cuda, **answers))
        stack.enter_context(mock.patch.object(threading.Thread, "start", start))
        stack.enter_context(_KernelMode(python))
        stack.enter_context(python)
        yield ledger
