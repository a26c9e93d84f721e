"""Loads one module of an installed package without the package, whose other modules ask for far more than packing needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from types import ModuleType
from typing import Any


def load(package: str, path: str, given: dict[str, dict[str, Any]]) -> ModuleType:
    """The module of `package` at `path`, unchanged. `given` stands for the modules that it imports: their names and what it takes of each."""
    for name, names in given.items():
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            module = sys.modules.setdefault(".".join(parts[:n]), ModuleType(".".join(parts[:n])))
        vars(module).update(names)
    file = importlib.metadata.distribution(package).locate_file(path)
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "."), str(file))
    if spec is None or spec.loader is None:
        raise ImportError(f"{package} has no {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
