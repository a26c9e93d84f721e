"""A progress bar of a loader's steps."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from loaderd._client import Client
from loaderd.errors import LoaderdError

_STALL_SECONDS = 2.0
"""Seconds of a wait until the bar shows its cause."""
_LENGTH_SECONDS = 10.0
"""Seconds between two requests for the number of steps."""


def is_interactive() -> bool:
    """Reports whether a bar can be shown: tqdm is installed, and this is a notebook or a terminal."""
    return find_spec("tqdm") is not None and ("ipykernel" in sys.modules or sys.stderr.isatty())


class Progress:
    """A bar of tqdm with step, tokens/s, and the cause of a stall. `with progress:` surrounds a wait for a step.

    A thread requests the cause of a long wait and the number of steps from the daemon. It ends with `close`.
    """

    def __init__(self, connect: Callable[[], Client]) -> None:
        """Creates a bar, which appears with the first wait.

        Args:
            connect: Returns the client of the run.

        Raises:
            ImportError: If tqdm is not installed.
        """
        try:
            self._tqdm: Any = import_module("tqdm.auto").tqdm
        except ImportError:
            raise ImportError("progress=True requires tqdm: pip install tqdm, or omit progress") from None
        self._connect, self._owner = connect, os.getpid()
        self._bar: Any = None
        self._since: float | None = None
        self._tokens, self._began = 0, 0.0
        self._stop = threading.Event()

    def __enter__(self) -> None:
        self._since = time.monotonic()
        if self._bar is None and not self._stop.is_set():
            self._bar, self._began = self._tqdm(unit="step", desc="loaderd"), time.monotonic()
            threading.Thread(target=self._watch, name="loaderd-progress", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def update(self, step: int, tokens: int) -> None:
        """Shows that a step was yielded.

        Args:
            step: The number of steps since the run began.
            tokens: The tokens of this step, without padding.
        """
        if self._bar is None or self._stop.is_set():
            return
        if self._tokens == 0:
            self._bar.initial = self._bar.last_print_n = self._bar.n = step - 1  # after a resume
        self._tokens += tokens
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        self._bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)
        self._bar.update(step - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it is, and ends the thread."""
        if os.getpid() == self._owner and not self._stop.is_set():
            self._stop.set()
            if self._bar is not None:
                self._bar.close()

    def _watch(self) -> None:
        measured = time.monotonic()
        while not self._stop.wait(_STALL_SECONDS / 2):
            now, since = time.monotonic(), self._since
            try:
                if since is not None and now - since > _STALL_SECONDS:
                    self._bar.set_postfix_str(self._connect().status().sentence)
                elif self._bar.total is None and now - measured > _LENGTH_SECONDS:
                    measured, length = now, self._connect().info().length
                    self._bar.total = length.steps if length is not None and length.exact else None
            except (LoaderdError, RuntimeError):  # the wait itself raises the cause
                continue
