"""Reads steps that `loaderd run export` has written to a folder, as `loaderd.Client` returns them, without a daemon."""

from loaderd.frozen._reader import Frozen

__all__ = ["Frozen"]
