"""Prefetching in a thread: bounded, in order, errors in their place."""

import threading

import pytest

import loaderd
from loaderd import Prefetcher
from waiting import wait_for


class Counting:
    """Counts up, and raises after the last number."""

    def __init__(self, last: int, error: BaseException | None = None) -> None:
        self.at, self.last, self.error, self.cancelled = 0, last, error, threading.Event()
        self.moved = threading.Condition()

    def __next__(self) -> int:
        with self.moved:
            if self.at == self.last:
                raise self.error or StopIteration
            self.at += 1
            self.moved.notify_all()
            return self.at

    def cancel(self) -> None:
        self.cancelled.set()


def test_a_wait_that_ended_while_nobody_waited_is_stale() -> None:
    for error, stale in (
        (loaderd.SourceDryError("dry"), True),
        (loaderd.UnreachableError("gone"), True),
        (RuntimeError("broken"), False),
    ):
        with Prefetcher(Counting(1, error), 2) as reader:
            assert next(reader) == 1
            wait_for(lambda reader=reader: reader._shared.ended)
            with pytest.raises(type(error)):
                next(reader)
            assert reader.stale is stale


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_prefetching_is_bounded(depth: int) -> None:
    source = Counting(50)
    with Prefetcher(source, depth) as reader:
        for i in range(1, 40):
            assert next(reader) == i
            with source.moved:
                assert source.moved.wait_for(lambda i=i: source.at == i + depth, timeout=10)
    assert source.cancelled.is_set() and source.at <= 39 + depth


def test_what_the_thread_raises_comes_in_its_place() -> None:
    with Prefetcher(Counting(3, RuntimeError("broken")), 2) as reader:
        assert [next(reader) for _ in range(3)] == [1, 2, 3]
        with pytest.raises(RuntimeError, match="broken"):
            next(reader)
        assert list(reader) == []
    with Prefetcher(Counting(3), 2, lambda i: 6 // (i - 2)) as reader:
        assert next(reader) == -6
        with pytest.raises(ZeroDivisionError):
            next(reader)
    with Prefetcher(Counting(3)) as reader:
        pass
    with pytest.raises(loaderd.ClosedClientError):
        next(reader)
