"""Counts of the batches that a loader has yielded since it was created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from loaderd._step import Step


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Counts of the batches that this rank received, and the time that it waited for them.

    Attributes:
        steps: The number of batches.
        tokens: Tokens of documents.
        padding: The other positions.
        waited: The time in seconds that `next()` took while no batch was ready, which the trainer lost.
        sources: Tokens by source.
        buckets: Steps by row length.
        loss_sources: Tokens with a loss by source.
    """

    steps: int = 0
    tokens: int = 0
    padding: int = 0
    waited: float = 0.0
    sources: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    buckets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    loss_sources: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, step: Step) -> BatchCounts:
        """Returns the counts of one step.

        Args:
            step: The step.
        """
        sources = {name: c.tokens for name, c in (step.source_counts or {}).items()}
        loss_sources = {name: c.loss_tokens for name, c in (step.source_counts or {}).items()}
        return cls(
            1,
            step.tokens,
            step.rows * step.bucket - step.tokens,
            0.0,
            MappingProxyType(sources),
            MappingProxyType({step.bucket: 1}),
            MappingProxyType(loss_sources),
        )

    def __add__(self, other: BatchCounts) -> BatchCounts:
        both = BatchCounter()
        both.add(self)
        both.add(other)
        return both.counts()


class BatchCounter:
    """Accumulates the counts of batches."""

    def __init__(self) -> None:
        self.steps, self.tokens, self.padding, self.waited = 0, 0, 0, 0.0
        self.sources: dict[str, int] = {}
        self.buckets: dict[int, int] = {}
        self.loss_sources: dict[str, int] = {}

    def add(self, counts: BatchCounts) -> None:
        """Adds counts."""
        self.steps += counts.steps
        self.tokens += counts.tokens
        self.padding += counts.padding
        self.waited += counts.waited
        for name, tokens in counts.sources.items():
            self.sources[name] = self.sources.get(name, 0) + tokens
        for name, tokens in counts.loss_sources.items():
            self.loss_sources[name] = self.loss_sources.get(name, 0) + tokens
        for bucket, steps in counts.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + steps

    def counts(self) -> BatchCounts:
        """Returns the sums so far."""
        return BatchCounts(
            self.steps,
            self.tokens,
            self.padding,
            self.waited,
            MappingProxyType(dict(self.sources)),
            MappingProxyType(dict(self.buckets)),
            MappingProxyType(dict(self.loss_sources)),
        )
