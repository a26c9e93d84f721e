"""Reads steps from a folder that `loaderd run export` has written, as `loaderd.Client` returns them, without a daemon."""

from loaderd.frozen._reader import Frozen

__all__ = ["Frozen"]
