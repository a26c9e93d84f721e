"""Chats and instructions in files and data sets, as documents: `python -m loaderd.chats --help`.

docs/how-to/chats.md shows the usage.
"""

from loaderd.chats._inputs import ChatRows
from loaderd.chats._rows import RowOptions

__all__ = ["ChatRows", "RowOptions"]
