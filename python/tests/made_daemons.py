"""Fake daemons, for tests of a client's reaction to their failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pyarrow.flight as flight
import pytest

from proxy import Proxy
from test_client_protocol import INFO, SCHEMA, message, typed

STEPS = 40


class Made(flight.FlightServerBase):
    """A fake daemon: it has steps 0 ... 39 and refuses other plans. For steps from `until` on streams raise
    `refusal`, or without one they wait. It receives reports of consumption into `consumed`, and answers them with
    `receipt`."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.path = Proxy(self.port)
        self.url = self.path.url
        self.fingerprint = "sha256:1"
        self.daemons: list[str] = []
        self.until = STEPS
        self.refusal: Exception | None = None
        self.stopping = threading.Event()
        self.cause: dict[str, object] = {}
        self.tickets: list[dict[str, object]] = []
        self.actions: list[tuple[str, dict[str, object]]] = []
        self.consumed: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.receipt: Callable[[], dict[str, object]] = dict

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        asked = json.loads(ticket.ticket)
        self.tickets.append(asked)
        if asked["fingerprint"] != self.fingerprint:
            raise typed("PLAN_MISMATCH", 9)

        def play() -> Iterator[object]:
            for step in range(asked["step"], STEPS):
                while step >= self.until:
                    if self.refusal is not None:
                        raise self.refusal
                    if self.stopping.wait(0.02) or context.is_cancelled():
                        return
                yield message(step, rows=2 // asked["world"])

        return flight.GeneratorStream(SCHEMA, play())

    def do_action(self, context: object, action: flight.Action) -> list[bytes]:
        body = json.loads(action.body.to_pybytes())
        if action.type == "info":
            return [json.dumps(INFO | {"fingerprint": self.fingerprint, "daemons": self.daemons, "ahead": 8}).encode()]
        if action.type == "consumed":
            self.consumed.put(body)
            return [json.dumps({"run": "r", "known": True, "window": 8} | self.receipt()).encode()]
        if action.type == "cause":
            return [json.dumps(body | self.cause).encode()]
        self.actions.append((action.type, body))
        return [json.dumps({"run": "r", "committed": 7, "step": 7, "sequence": 7}).encode()]


@pytest.fixture
def made() -> Iterator[list[Made]]:
    """Three daemons, in the order of their addresses."""
    servers = sorted((Made() for _ in range(3)), key=lambda s: s.url)
    yield servers
    for s in servers:
        s.path.__exit__()
        s.stopping.set()
        s.shutdown()


def urls(servers: list[Made]) -> list[str]:
    return [s.url for s in servers]


def asked(servers: list[Made]) -> list[list[object]]:
    """Returns the first steps of the tickets that each server has received."""
    return [[t["step"] for t in s.tickets] for s in servers]


def plan_until(servers: list[Made], step: int) -> None:
    for s in servers:
        s.until = step
