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


def _added(a: Mapping[K, int], b: Mapping[K, int]) -> Mapping[K, int]:
    return MappingProxyType(dict(a) | {k: a.get(k, 0) + n for k, n in b.items()})
