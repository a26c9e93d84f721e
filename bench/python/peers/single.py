"""Loads one module of an installed package without the package, whose other modules have far more requirements than
packing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from types import ModuleType
from typing import Any


def load(package: str, path: str, given: dict[str, dict[str, Any]]) -> ModuleType:
    """Returns the module of `package` at `path`, unchanged.

    `given` replaces its imports: the names of modules and their members.
    """
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
