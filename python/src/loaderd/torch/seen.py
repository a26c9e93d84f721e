"""What a loader has yielded since it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from loaderd.step import Step

K = TypeVar("K", int, str)


@dataclass(frozen=True, slots=True)
class Seen:
    """Counts of the batches that this rank was given, and how long it waited for them.

    `tokens` are those of documents, `padding` the others; `sources` has the tokens by source, of a run with several; `buckets` the steps by row length. `waited`
    is the time in seconds that `next()` took while no batch was ready: what the trainer lost."""

    steps: int = 0
    tokens: int = 0
    padding: int = 0
    waited: float = 0.0
    sources: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    buckets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, step: Step) -> Seen:
        """The counts of one step."""
        sources = {name: c.tokens for name, c in (step.source_counts or {}).items()}
        return cls(1, step.tokens, step.rows * step.bucket - step.tokens, 0.0, MappingProxyType(sources), MappingProxyType({step.bucket: 1}))

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            self.steps + other.steps,
            self.tokens + other.tokens,
            self.padding + other.padding,
            self.waited + other.waited,
            _added(self.sources, other.sources),
            _added(self.buckets, other.buckets),
        )


class Tally:
    """Adds what steps held up: Seen that grows, at no cost for those who do not look."""

    def __init__(self) -> None:
        self.steps, self.tokens, self.padding, self.waited = 0, 0, 0, 0.0
        self.sources: dict[str, int] = {}
        self.buckets: dict[int, int] = {}

    def add(self, step: Seen, waited: float) -> None:
        """Counts a step, for which the trainer waited so long."""
        self.steps += step.steps
        self.tokens += step.tokens
        self.padding += step.padding
        self.waited += waited
        for name, tokens in step.sources.items():
            self.sources[name] = self.sources.get(name, 0) + tokens
        for bucket, steps in step.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + steps

    def seen(self) -> Seen:
        return Seen(self.steps, self.tokens, self.padding, self.waited, MappingProxyType(dict(self.sources)), MappingProxyType(dict(self.buckets)))


def _added(a: Mapping[K, int], b: Mapping[K, int]) -> Mapping[K, int]:
    return MappingProxyType(dict(a) | {k: a.get(k, 0) + n for k, n in b.items()})
