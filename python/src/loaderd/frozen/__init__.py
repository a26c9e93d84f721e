"""Steps that `loaderd export` has written into a folder, as `loaderd.Client` gives them, without a daemon."""

from loaderd.frozen.reader import Frozen

__all__ = ["Frozen"]
