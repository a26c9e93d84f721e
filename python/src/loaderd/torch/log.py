"""Logs the data of a trainer: shares of sources, padding, waits, tokens.

A logger needs only a method `log_metrics` (Lightning), `add_scalar` (TensorBoard) or `log` (Weights & Biases), or to be
callable; none of these packages is required.

Example:
    ```python
    from loaderd.torch.log import Log

    log = Log(loader, wandb.init(...))  # or a SummaryWriter, a Lightning logger, any function of (dict, step)
    for batch in loader:
        train(batch)
        log()  # every 50 steps it writes; on the ranks that have a logger
    ```
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from loaderd.torch._counts import BatchCounts
from loaderd.torch._loader import StepLoader

Write = Callable[[dict[str, float], int], object]
"""Receives the metrics by name, and their step."""


class Log:
    """Writes the metrics of a loader to a logger, every `every` steps.

    | metric | of this rank |
    | --- | --- |
    | `loaderd/share/SOURCE` | share of the source since the previous line (`mix.share`); if there are several |
    | `loaderd/tokens/SOURCE` | tokens of the source so far |
    | `loaderd/tokens` | tokens so far, without padding |
    | `loaderd/tokens_per_second` | of these, since the previous line |
    | `loaderd/padding` | share of padding in the rows since the previous line |
    | `loaderd/wait_seconds` | time that `next()` waited for a batch, so far |
    | `loaderd/wait_share` | share of such waits in the time since the previous line |
    | `loaderd/steps/BUCKET` | steps so far by their row length; only in runs with several |

    Counts continue after a resume if the trainer's checkpoint has `state_dict()` with that of the loader.
    """

    def __init__(self, loader: StepLoader, logger: object = None, *, every: int = 50, prefix: str = "loaderd/") -> None:
        """Starts to count at the loader's next batch.

        Args:
            loader: The loader.
            logger: The destination; None writes nothing, for ranks without a logger.
            every: Steps between two lines, 1 or more.
            prefix: The prefix of the metrics' names.

        Raises:
            TypeError: If the logger has none of the methods.
            ValueError: If `every` is below 1.
        """
        if every < 1:
            raise ValueError(f"every {every}: want 1 or more steps")
        self._loader, self._every, self._prefix = loader, every, prefix
        self._write = None if logger is None else writer(logger)
        self._before = BatchCounts()  # counts from before a resume
        self._start = self._line = loader.counts
        self._at = time.monotonic()

    def __call__(self) -> None:
        """Counts a step: call it once per batch."""
        if self._write is not None and self._loader.counts.steps - self._line.steps >= self._every:
            self.flush()

    def flush(self) -> None:
        """Writes the metrics since the previous line now."""
        now, at = self._loader.counts, time.monotonic()
        if self._write is None or now.steps == self._line.steps:
            return
        self._write(
            {self._prefix + name: value for name, value in self._figures(now, at - self._at).items()}, self._loader.step
        )
        self._line, self._at = now, at

    def _figures(self, now: BatchCounts, seconds: float) -> dict[str, float]:
        total, line = self._before + now, self._line
        tokens, padding = now.tokens - line.tokens, now.padding - line.padding
        out = {
            "tokens": float(total.tokens - self._start.tokens),
            "tokens_per_second": tokens / max(seconds, 1e-9),
            "padding": padding / max(tokens + padding, 1),
            "wait_seconds": total.waited - self._start.waited,
            "wait_share": min(1.0, (now.waited - line.waited) / max(seconds, 1e-9)),
        }
        of_loss = self._loader.info.configuration.get("mix", {}).get("share") == "loss_tokens"
        ours, before = (now.loss_sources, line.loss_sources) if of_loss else (now.sources, line.sources)
        shared = sum(ours.values()) - sum(before.values())
        for name, n in total.sources.items() if len(total.sources) > 1 else ():
            out[f"tokens/{name}"] = float(n - self._start.sources.get(name, 0))
            out[f"share/{name}"] = (ours.get(name, 0) - before.get(name, 0)) / max(shared, 1)
        if len(total.buckets) > 1:
            out |= {
                f"steps/{bucket}": float(n - self._start.buckets.get(bucket, 0))
                for bucket, n in sorted(total.buckets.items())
            }
        return out

    def state_dict(self) -> dict[str, Any]:
        """Returns the counts so far, for the trainer's checkpoint: numbers by name."""
        total = self._before + self._loader.counts
        return {
            "steps": total.steps - self._start.steps,
            "tokens": total.tokens - self._start.tokens,
            "padding": total.padding - self._start.padding,
            "waited": total.waited - self._start.waited,
            "sources": {k: n - self._start.sources.get(k, 0) for k, n in total.sources.items()},
            "buckets": {str(k): n - self._start.buckets.get(k, 0) for k, n in total.buckets.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with the counts of a state.

        Args:
            state: What `state_dict()` returned.
        """
        self._before = BatchCounts(
            int(state["steps"]),
            int(state["tokens"]),
            int(state["padding"]),
            float(state["waited"]),
            {str(k): int(n) for k, n in state["sources"].items()},
            {int(k): int(n) for k, n in state["buckets"].items()},
        )
        self._start = self._line = self._loader.counts
        self._at = time.monotonic()


def writer(logger: object) -> Write:
    """Returns a function that writes metrics to a logger.

    Args:
        logger: A logger of Lightning (`log_metrics`), TensorBoard (`add_scalar`) or Weights & Biases (`log`), or a
            function of (dict, step).

    Raises:
        TypeError: If the logger is none of them.
    """
    if callable(write := getattr(logger, "log_metrics", None)):
        return lambda metrics, step: write(metrics, step)
    if callable(add := getattr(logger, "add_scalar", None)):

        def each(metrics: dict[str, float], step: int) -> None:
            for name, value in metrics.items():
                add(name, value, step)

        return each
    if callable(log := getattr(logger, "log", None)):
        return lambda metrics, step: log(metrics, step=step)
    if callable(logger):
        return logger
    raise TypeError(
        f"{type(logger).__name__} is not a logger: want a method log_metrics, add_scalar or log, or a function of "
        "(metrics, step)"
    )
