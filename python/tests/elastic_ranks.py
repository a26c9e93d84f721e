"""Ranks of an elastic job as processes without torch.distributed. A test is their coordinator: it sends each of them
commands, and kills some.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

from loaderd.torch import StepLoader
from rank_processes import TIMEOUT, row_digests


def serve(connection: Connection, url: str, arguments: dict[str, Any]) -> None:
    """Carries out the commands of the coordinator, each the name of a method and its arguments."""
    with Trainer(url, arguments) as trainer:
        while True:
            name, positional, named = connection.recv()
            try:
                connection.send((True, getattr(trainer, name)(*positional, **named)))
            except Exception as error:
                connection.send((False, f"{type(error).__name__}: {error}"))


class Trainer:
    """The loop of one rank."""

    def __init__(self, url: str, arguments: dict[str, Any]) -> None:
        self.loader = StepLoader(url, **{"timeout": 30, **arguments})

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.loader.close()

    def train(self) -> tuple[int, list[int]]:
        """Returns the next step, and the digests of this rank's rows of it."""
        batch = next(self.loader)
        return self.loader.step - 1, row_digests(batch)

    def read_on(self) -> int:
        """Reads all other steps, and returns their number."""
        return sum(1 for _ in self.loader)

    def state(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)

    def resize(self, *positional: int, **named: Any) -> tuple[int, int, int, int]:
        self.loader.resize(*positional, **named)
        return self.loader.rank, self.loader.world_size, self.loader.step, self.loader.tokens

    def skip(self, steps: int) -> None:
        self.loader.skip(steps)

    def status(self) -> dict[str, Any]:
        return dict(self.loader.status().figures)


class Member:
    """A process of the job, as its coordinator sees it."""

    def __init__(self, url: str, **arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["pytest", "rank_processes", __name__])
        self.connection, theirs = multiprocessing.Pipe()
        self.process = context.Process(target=serve, args=(theirs, url, arguments), daemon=True)
        with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
            self.process.start()
        theirs.close()

    def send(self, name: str, *positional: Any, **named: Any) -> None:
        """Sends a command."""
        self.connection.send((name, positional, named))

    def receive(self) -> Any:
        """Returns the result of the last command."""
        assert self.connection.poll(TIMEOUT), "no answer"
        done, result = self.connection.recv()
        assert done, result
        return result

    def error(self) -> str:
        """Returns the error of the last command."""
        assert self.connection.poll(TIMEOUT), "no answer"
        done, result = self.connection.recv()
        assert not done, result
        return str(result)

    def call(self, name: str, *positional: Any, **named: Any) -> Any:
        """Sends a command and returns its result."""
        self.send(name, *positional, **named)
        return self.receive()

    def stop(self) -> None:
        """Sends SIGSTOP: connections stay open without an answer, as after the loss of a machine."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Ends `stop`."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.process.kill()
        self.process.join()


def all_of(members: list[Member], name: str, *positional: Any, **named: Any) -> list[Any]:
    """Sends a command to all, then returns the results."""
    for m in members:
        m.send(name, *positional, **named)
    return [m.receive() for m in members]


def train(members: list[Member]) -> tuple[int, list[int]]:
    """Trains one step on all ranks, in their order. Returns the step and the digests of all its rows."""
    results = all_of(members, "train")
    assert len({step for step, _ in results}) == 1, results
    return results[0][0], [digest for _, rows in results for digest in rows]


def resize(members: list[Member], **named: Any) -> list[Any]:
    """Makes the members the ranks of a new world size, in their order."""
    for rank, m in enumerate(members):
        m.send("resize", rank, len(members), **named)
    return [m.receive() for m in members]
