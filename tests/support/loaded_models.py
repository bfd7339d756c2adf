"""Models that are loaded once a process, however many tests ask for them, and what a test must
leave as it was.

BERTs alone are kept: other families, Big Bird for one, remember what they have run. Two that are
wanted at once are one, so a test that is about two, or that changes one, is marked `loads_anew`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnscan.model.devices import choose_device
from attnscan.model.loading import LoadedModel
from attnscan.model.sources import Device, Dtype, Source
from attnscan.results.grid import AttentionName

_MOST = 12  # of them, the one that was asked for last at the end
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class LoadedModels:
    """Stands in for `load`: the same model again, as long as its files are the same."""

    def __init__(self, load: Callable[..., LoadedModel]) -> None:
        self.anew = load
        self._kept: dict[
            tuple[Any, ...], tuple[LoadedModel, dict[str, Any]]
        ] = {}  # and how it was when it was loaded

    def __call__(
        self,
        source: Source,
        device: Device = "auto",
        dtype: Dtype = "auto",
        attention: AttentionName = "encoder",
        languages: tuple[str | None, str | None] = (None, None),
    ) -> LoadedModel:
        """Raises: what `load` raises."""
        directory = Path(source.location)
        if attention != "encoder" or any(languages) or not directory.is_dir():
            return self.anew(source, device, dtype, attention, languages)
        stats = [(path.name, path.stat()) for path in sorted(directory.iterdir())]
        files = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        number = "float32" if dtype == "auto" else dtype
        key = (files, source.location, source.revision, choose_device(device), number)
        if key not in self._kept:
            loaded = self.anew(source, device, dtype)
            if loaded.model.config.model_type != "bert":
                return loaded
            self._kept[key] = loaded, _state(loaded)
        loaded, _ = self._kept[key] = self._kept.pop(key)
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]
        return loaded if source == loaded.source else replace(loaded, source=source)

    def changed(self) -> list[str]:
        """What is not as it was when it was loaded. Such models are loaded anew the next time."""
        lines = []
        for key, (loaded, before) in list(self._kept.items()):
            if names := [
                name for name, value in _state(loaded).items() if value != before.get(name)
            ]:
                del self._kept[key]
                lines.append(f"{loaded.source.name}: {', '.join(names)}")
        return lines


def _state(loaded: LoadedModel) -> dict[str, Any]:
    """All that somebody could forget to put back; but for the attention, since a module may hold a
    tap open.
    """
    state: dict[str, Any] = {}
    for name, module in loaded.with_task_head.named_modules():
        state[name or "the model"] = (
            module.training,
            sum(len(getattr(module, kind)) for kind in _HOOKS),
        )
    for name, weights in [
        *loaded.with_task_head.named_parameters(),
        *loaded.with_task_head.named_buffers(),
    ]:
        state[name] = (
            id(weights),
            weights.data_ptr(),
            None if weights.is_inference() else weights._version,
        )
    return state
