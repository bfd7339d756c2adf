"""What `import attnscan` offers for training: checkpoints traced, and a callback for a Trainer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import numpy as np

from attnscan.api.many_pairs import heads
from attnscan.api.option_groups import PAIRS, STATE, File, TraceOptions
from attnscan.api.options import file_to_write
from attnscan.api.pairs_input import Pairs
from attnscan.api.signatures import library_function
from attnscan.errors import OptionError
from attnscan.inputs.option import Option
from attnscan.results.trace import Trace, TracedCheckpoint
from attnscan.scan.options import OnProgress, note, silent
from attnscan.studies.trace import order_checkpoints

if TYPE_CHECKING:
    from attnscan.results.heads import HeadScores

_NO_LABEL = "no distinct habit"


@library_function(predictive="off")
def trace(
    models: Annotated[
        str | Path | Sequence[str | Path],
        Option(
            "Checkpoints: directories, or one that holds them; hub revisions as NAME@REVISION.",
            metavar="DIRECTORY",
            repeats=True,
            is_argument=True,
        ),
    ],
    *,
    pairs: Annotated[Pairs, PAIRS] = None,
    state: Annotated[File | None, STATE] = None,
    **options: Unpack[TraceOptions],
) -> Trace:
    """What every head does at each checkpoint of a training run, and since when.

    `models` are directories or hub revisions (`name@revision`), or a directory that holds the
    checkpoints. They are read in the order of their steps, one at a time, by the same `pairs` and
    options as `heads` takes. `to_frame()` has a row for each head of each checkpoint. `state` keeps
    the sums of each checkpoint, in a file of its own beside that name.

    Raises: as `heads`; ModelError, before anything is computed, for a checkpoint that cannot be
    read, unless with `skip_bad`, and for models of different shapes.
    """
    names = [models] if isinstance(models, str | Path) else list(models)
    scan_options: dict[str, Any] = {"predictive": "off", **options}
    progress = scan_options.pop("progress", None) or silent
    skip_bad = bool(scan_options.get("skip_bad"))
    checkpoints, faults = order_checkpoints([str(name) for name in names], skip_bad=skip_bad)
    for line in faults:
        note(line)
    if isinstance(pairs, Iterator):
        pairs = list(pairs)  # each checkpoint reads them
    state_path = file_to_write(state)
    traced: list[TracedCheckpoint] = []
    for place, checkpoint in enumerate(checkpoints):
        result = heads(
            pairs,
            model=checkpoint.name,
            state=None if state_path is None else _state_of(state_path, checkpoint.name, place),
            progress=_announce(progress, f"checkpoint {place + 1} of {len(checkpoints)}"),
            **scan_options,
        )
        _check_shape(result, traced, checkpoint.name)
        traced.append(TracedCheckpoint(checkpoint.name, checkpoint.step, result))
    return Trace(tuple(traced), tuple(faults))


def _state_of(path: Path, name: str, place: int) -> Path:
    """The file of one checkpoint's sums: `run.state` is `run-checkpoint-500.state`."""
    title = Path(name).name.replace("@", "-") or str(place)
    return path.with_name(f"{path.stem}-{title}{path.suffix}")


def _announce(progress: OnProgress, checkpoint: str) -> OnProgress:
    def step(doing: str, done: int | None, total: int | None) -> None:
        progress(f"{checkpoint}: {doing}", done, total)

    return step


def _check_shape(result: HeadScores, traced: Sequence[TracedCheckpoint], name: str) -> None:
    """Raises: OptionError for heads that are not those of the first checkpoint."""
    if traced and traced[0].result.grid.shape != result.grid.shape:
        layers, n_heads = result.grid.shape
        first_layers, first_heads = traced[0].result.grid.shape
        raise OptionError(
            f"{traced[0].name} has {first_layers} layers × {first_heads} heads, "
            f"and {name} {layers} layers × {n_heads} heads",
            "trace checkpoints of one run, whose models have one shape",
        )


def logged_values(result: HeadScores) -> dict[str, float]:
    """The scalars that a training run logs of its heads.

    How many heads there are of each kind among words, how many rest, and the mean entropy of their
    attention, in nats.
    """
    labels = result.labels
    kinds = Counter(str(name) or _NO_LABEL for name in labels.among_words.ravel())
    values = {f"attnscan/heads {name}": float(count) for name, count in kinds.items()}
    values["attnscan/heads that rest"] = float(labels.rests.sum())
    values["attnscan/mean entropy"] = float(np.nanmean(result.scores.means["entropy"]))
    return values


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Leave the generators of Python, numpy and torch as they are found."""
    import torch

    python_state = random.getstate()
    numpy_state = np.random.get_state()  # the one that a data set may use
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


class _HeadTracker:
    """Labels the heads of the model that a trainer trains, and keeps what they did at each step."""

    def __init__(self, trainer: Any, pairs: Pairs, options: dict[str, Any]) -> None:
        self.trainer = trainer
        self.pairs = list(pairs) if isinstance(pairs, Iterator) else pairs
        self.options = {"predictive": "off", **options}
        self.measured: dict[int, TracedCheckpoint] = {}

    def measure(self, state: Any) -> None:
        """Label the heads and log how many there are of each kind, unless this step has been.

        The model is read without autocast, and without the wrappers of many devices.
        """
        step = state.global_step
        if step in self.measured or not state.is_world_process_zero:
            return
        import torch

        trainer = self.trainer
        model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
        device = next(model.parameters()).device.type
        with _random_state_kept(), torch.autocast(device, enabled=False):
            result = heads(
                self.pairs, model=model, tokenizer=trainer.processing_class, **self.options
            )
        self.measured[step] = TracedCheckpoint(f"step {step}", step, result)
        should_log = (
            trainer.control.should_log
        )  # log() takes it for done, and the loss is still due
        trainer.log(logged_values(result))
        trainer.control.should_log = should_log


@cache
def trainer_callback() -> type:
    """The class `attnscan.TrainerCallback`: made when it is asked for, as it needs transformers."""
    from transformers import TrainerCallback as TransformersCallback

    class TrainerCallback(TransformersCallback):  # type: ignore[misc]
        """What every head does while transformers' Trainer trains.

        Make it with the trainer, then add it to that: `trainer.add_callback(callback)`. Before the
        first step, every `every` steps and at the end, heads are labelled by the same `pairs` (the
        pairs that ship, or any that `heads` takes) and the options of `heads`. How many there are
        of each kind goes through the trainer's `log`, so that TensorBoard and others have it;
        `trace` has all results, `to_frame()` their table. The model is read in evaluation mode; it
        and the generators of random numbers are left as they were.
        """

        def __init__(
            self, *, trainer: Any, pairs: Pairs = None, every: int = 500, **options: Any
        ) -> None:
            if every < 1:
                raise OptionError(f"every is {every}", "give a number of steps, at least 1")
            self._every = every
            self._tracker = _HeadTracker(trainer, pairs, options)

        @property
        def trace(self) -> Trace:
            """What every head did at each step that was measured."""
            measured = self._tracker.measured
            return Trace(tuple(measured[step] for step in sorted(measured)))

        def to_frame(self, patterns: Sequence[str] | None = None) -> Any:
            """A row for each head at each step, as `attnscan.trace(...).to_frame()` has it."""
            return self.trace.to_frame(patterns)

        def on_train_begin(self, _args: Any, state: Any, _control: Any, **_others: Any) -> None:
            """Label the heads before the first step."""
            self._tracker.measure(state)

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_others: Any) -> None:
            """Label the heads every so many steps."""
            if state.global_step % self._every == 0:
                self._tracker.measure(state)

        def on_train_end(self, _args: Any, state: Any, _control: Any, **_others: Any) -> None:
            """Label the heads as they are at the end."""
            self._tracker.measure(state)

    TrainerCallback.__module__ = "attnscan"
    TrainerCallback.__qualname__ = "TrainerCallback"
    return TrainerCallback


def __getattr__(name: str) -> Any:
    if name == "TrainerCallback":
        return trainer_callback()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
