"""Which dataclasses of a room could be changed under a caller."""

import importlib
import pkgutil
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any


def classes_that_can_change(room: ModuleType) -> list[str]:
    """The dataclasses of a package that are not frozen, by their names."""
    names = []
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if is_own_dataclass(value, module.name) and not value.__dataclass_params__.frozen:
                names.append(value.__qualname__)
    return names


def is_own_dataclass(value: Any, module: str) -> bool:
    """Whether a value is a dataclass that a module itself defines."""
    return isinstance(value, type) and is_dataclass(value) and value.__module__ == module
