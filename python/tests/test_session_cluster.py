"""A read back from a fake cluster with a lagging server: the answers of each server are given by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from loaderd.producer import _nats_session as module
from loaderd.producer._nats_session import Access, NatsConnectionError, Session


class Cluster(Session):
    """Ten messages, and servers that have fewer: the numbers of messages of the next server that reads, and of the
    next one that gets a single request."""

    clustered = True

    def __init__(self, readers: list[int], asked: list[int]) -> None:
        super().__init__(Access("nats://made-up"))
        self.readers, self.asked = readers, asked

    async def _headers_of_one(
        self, stream: str, subject: str, first: int, last: int, each: Callable[[int, dict[str, str]], None]
    ) -> None:
        has = self.readers.pop(0) if self.readers else 10
        for sequence in range(first, min(last, has) + 1):
            each(sequence, {})

    async def _following(self, stream: str, subject: str, first: int) -> tuple[int, dict[str, str]]:
        has = self.asked.pop(0) if self.asked else 10
        return (first, {}) if first <= has else (0, {})


def read(cluster: Cluster, last: int) -> list[int]:
    seen: list[int] = []
    asyncio.run(cluster.headers("DOCS", "docs.web", 1, last, lambda sequence, _: seen.append(sequence)))
    return seen


@pytest.mark.parametrize(("readers", "asked"), [([10], []), ([4], [10]), ([0, 3, 7], [2, 4, 10]), ([9], [9, 10])])
def test_nothing_left_of_a_server_that_is_behind_is_no_end(readers, asked):
    assert read(Cluster(readers, asked), 10) == list(range(1, 11))


def test_a_last_message_that_nobody_has_is_looked_for_anew(monkeypatch):
    monkeypatch.setattr(module, "BEHIND_SECONDS", 0.3)
    with pytest.raises(NatsConnectionError, match="no message after 10, but one had 12"):
        read(Cluster([], []), 12)
