"""A run of several daemons: what a rank reads while they are killed, hang, refuse and recover, which daemon it
calls, and how long that takes. Tests that compare steps use several paths to one real daemon; the others use fake
daemons."""

import gc
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import loaderd
from conftest import Daemon
from loaderd import Client
from loaderd._connection import Connection
from made_daemons import STEPS, Made, asked, made, plan_until, urls
from proxy import Proxy
from test_client import Digest, digest
from test_client_faults import big, port_of
from test_client_protocol import typed
from waiting import no_thread_is_left, wait_for

__all__ = ["big", "made"]  # fixtures


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    yield
    gc.collect()
    no_thread_is_left()


# --- the same steps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_every_step_once_whatever_path_fails(big: Daemon, seed: int) -> None:
    """Of three paths to the same run two break and one drops all packets, each after a random number of bytes: none
    to a few steps."""
    rng = random.Random(seed)
    with Client(big.flight_url) as client:
        undisturbed = digest(client)
    with ExitStack() as stack:
        paths = [
            stack.enter_context(Proxy(port_of(big), budget=lambda: int(rng.expovariate(1 / 300_000)), hang=hangs))
            for hangs in (False, True, False)
        ]
        client = stack.enter_context(Client([p.url for p in paths], prefetch_factor=1, timeout=60))
        got: Digest = []
        longest, hung = 0.0, 0
        for _ in undisturbed:
            begun = time.monotonic()
            got += digest([next(client)])
            longest = max(longest, time.monotonic() - begun)
            hung += paths[1].swallow.is_set()
            if hung % 3 == 0:
                paths[1].swallow.clear()  # broken connections stay so
        assert list(client) == []
        assert sum(p.cuts for p in paths) > 3 and hung
    assert got == undisturbed
    assert longest < 20


def test_jobs_of_a_real_daemon(big: Daemon) -> None:
    """The daemon accepts the ticket of a job, and both jobs get the same steps."""
    with Client(big.flight_url, steps=2) as one, Client(big.flight_url, steps=2, job="eval") as other:
        assert digest(one) == digest(other)
    with Client(big.flight_url, job="") as nameless, pytest.raises(loaderd.InvalidTicketError, match="job"):
        next(nameless)


# --- the daemon of a rank ---------------------------------------------------------------------------------------------


def test_a_daemon_that_dies_is_left_at_once(made: list[Made], caplog: pytest.LogCaptureFixture) -> None:
    plan_until(made, 10)
    with Client(urls(made), rank=1, world_size=2) as client:
        steps, slowest = [next(client) for _ in range(10)], 0.0
        for dies, until in ((1, 20), (0, 30)):
            made[dies].path.down()
            plan_until(made, until)
            begun = time.monotonic()
            steps += [next(client) for _ in range(10)]
            slowest = max(slowest, time.monotonic() - begun)
        tickets = asked(made)  # now: after a second without step 30, which is not planned, it is requested again
    assert [s.index for s in steps] == list(range(30))
    assert all((s.input_ids == s.index).all() for s in steps)
    assert tickets == [[10], [0], [20]], "its own first, then the next one"
    assert slowest < 2
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(told) == 2 and f"from {made[0].url} after {made[1].url} failed" in told[0]


def test_a_daemon_that_hangs_is_left_soon(made: list[Made]) -> None:
    made[0].until = 5
    with Client(urls(made)) as client:
        for _ in range(5):
            next(client)
        wait_for(lambda: asked(made) == [[0], [], []])
        begun = time.monotonic()
        made[0].path.swallow.set()  # it has nothing to send, and then cannot send
        assert next(client).index == 5
        took = time.monotonic() - begun
        assert took < 4, "pings alone would take 20 s"
        assert asked(made)[1:] == [[5], []]
        made[0].path.swallow.clear()


@pytest.mark.parametrize("connect_timeout", [60.0, 0.5])
def test_a_daemon_that_hangs_from_the_start(made: list[Made], connect_timeout: float) -> None:
    """The other daemons are called, even if this one would use up the time until UnreachableError."""
    made[0].path.swallow.set()
    for s in made[1:]:
        s.path.delay = 0.05
    with Client(urls(made), connect_timeout=connect_timeout) as client:
        begun = time.monotonic()
        assert next(client).index == 0
        assert time.monotonic() - begun < 4
    made[0].path.swallow.clear()


@pytest.mark.parametrize(
    "reason", ["NOT_LEADING", "SHUTTING_DOWN", "REPLAYING", "PLAN_LOG_DOWN", "SOURCE_DOWN", "LATER_THAN_THIS"]
)
def test_a_daemon_that_cannot_now_is_left(made: list[Made], reason: str) -> None:
    made[0].until, made[0].refusal = 3, typed(reason)
    with Client(urls(made), steps=10) as client:
        begun = time.monotonic()
        assert [s.index for s in client] == list(range(10))
        assert time.monotonic() - begun < 2
    assert asked(made) == [[0], [3], []]


@pytest.mark.parametrize(
    "reason", ["SOURCE_DRY", "POOL_FILLING", "DOCUMENTS_FILTERED", "RANK_BEHIND", "TOKENIZER_BEHIND"]
)
def test_a_cause_of_the_run_is_no_reason_to_leave(made: list[Made], reason: str) -> None:
    made[0].until, made[0].refusal = 3, typed(reason)
    with ThreadPoolExecutor() as background, Client(urls(made), steps=10) as client:
        steps = background.submit(list, client)
        wait_for(lambda: len(made[0].tickets) > 3)
        made[0].until = STEPS
        assert [s.index for s in steps.result(timeout=30)] == list(range(10))
    assert asked(made)[1:] == [[], []]


@pytest.mark.parametrize("reason", ["RUN_FAILED", "INTERNAL", "DOCUMENT_LOST", "STEP_NOT_PLANNED"])
def test_what_one_daemon_cannot_another_may(made: list[Made], reason: str) -> None:
    for s in made[:2]:
        s.until, s.refusal = 3, typed(reason, 13)
    with Client(urls(made), steps=10, timeout=1000, connect_timeout=1000) as client:
        assert [s.index for s in client] == list(range(10))
    assert asked(made) == [[0], [3], [3]]
    made[2].until, made[2].refusal = 20, typed(reason, 13)
    with Client(urls(made), step=15, timeout=1000, connect_timeout=1000) as client:
        with pytest.raises(loaderd.LoaderdError, match=reason):
            while True:
                next(client)
        assert client.next_step == 20


@pytest.mark.parametrize("others", ["NOT_LEADING", "SOURCE_DRY"])
def test_what_one_daemon_cannot_while_the_others_wait(made: list[Made], others: str) -> None:
    """One daemon's run has failed and another one takes over: the error is temporary."""
    made[0].until, made[0].refusal = 3, typed("RUN_FAILED", 13)
    for s in made[1:]:
        s.until, s.refusal = 3, typed(others)
    with ThreadPoolExecutor() as background, Client(urls(made), steps=10) as client:
        steps = background.submit(list, client)
        wait_for(lambda: steps.done() or len(made[1].tickets) > 3)
        plan_until(made[1:], STEPS)
        assert [s.index for s in steps.result(timeout=30)] == list(range(10))


def test_a_daemon_that_is_cut_off_is_left_for_one_that_has_the_step(made: list[Made]) -> None:
    """Its stream waits until the daemon's stall timeout; a probe returns that it cannot reach the plan."""
    cut_off = {"reason": "PLAN_LOG_DOWN", "message": "no answer", "do": "wait"}
    for s in made:
        s.until = 3
    made[0].cause = made[1].cause = cut_off
    with ThreadPoolExecutor() as background, Client(urls(made), steps=10) as client:
        steps = background.submit(list, client)
        wait_for(lambda: made[0].tickets)
        threading.Event().wait(2.5)
        assert asked(made) == [[0], [], []], "the others have no more than it"
        made[1].cause, made[1].until = {}, STEPS
        assert [s.index for s in steps.result(timeout=30)] == list(range(10))
    assert asked(made) == [[0], [3], []]


def test_all_down_and_back(made: list[Made]) -> None:
    plan_until(made, 5)
    with Client(urls(made), connect_timeout=1, timeout=1000) as client:
        for _ in range(5):
            next(client)
        for s in reversed(made):  # the daemon in use last: the client would fail over to one that is still up
            s.path.down()
        with pytest.raises(loaderd.UnreachableError, match="cannot keep a connection to any of 3 daemons") as caught:
            next(client)
        for s in made:
            assert f"{s.url}: " in str(caught.value)
        assert caught.value.facts["url"] == ",".join(urls(made))
    plan_until(made, STEPS)
    with ThreadPoolExecutor() as background, Client(urls(made), step=5, steps=3) as client:
        steps = background.submit(list, client)
        threading.Event().wait(3)
        back = time.monotonic()
        made[2].path.up()
        assert [s.index for s in steps.result(timeout=30)] == [5, 6, 7]
        assert time.monotonic() - back < 5
    assert asked(made) == [[0], [], [5]]


def test_one_hangs_while_the_other_comes_back(made: list[Made]) -> None:
    """Calls to a hanging daemon take little of the time from the other one."""
    made[0].path.swallow.set()
    made[1].path.down()
    with ThreadPoolExecutor() as background, Client(urls(made)[:2], steps=1) as client:
        steps = background.submit(list, client)
        threading.Event().wait(8)
        back = time.monotonic()
        made[1].path.up()
        assert len(steps.result(timeout=60)) == 1
        assert time.monotonic() - back < 12
    made[0].path.swallow.clear()


def test_paths_that_are_all_slow(made: list[Made]) -> None:
    """Answers take longer than the first timeout, which grows until one arrives."""
    with (
        Proxy(made[0].port, delay=0.7) as a,
        Proxy(made[1].port, delay=0.7) as b,
        Client([a.url, b.url], steps=3) as client,
    ):
        assert [s.index for s in client] == [0, 1, 2]


def test_close_while_nobody_answers(made: list[Made]) -> None:
    for s in made[:2]:
        s.path.swallow.set()
    made[2].path.down()
    for call in (next, lambda c: c.commit(1)):
        with ThreadPoolExecutor() as background:
            client = Client(urls(made))
            waiting = background.submit(call, client)
            wait_for(lambda: any(s.path.swallowed for s in made))
            begun = time.monotonic()
            client.close()
            with pytest.raises(loaderd.ClosedClientError):
                waiting.result(timeout=30)
            assert time.monotonic() - begun < 4
    for s in made[:2]:
        s.path.swallow.clear()


def test_close_just_before_a_call(made: list[Made], monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow's error for a closed client is not reported as the daemon's fault."""
    opened = Connection._opened

    def closing(self: Connection) -> object:
        found = opened(self)
        client.close()
        return found

    with Client(made[0].url) as client:
        monkeypatch.setattr(Connection, "_opened", closing)
        with pytest.raises(loaderd.ClosedClientError):
            client.commit(1)


# --- another plan -----------------------------------------------------------------------------------------------------


def test_another_plan_at_the_second_address(made: list[Made]) -> None:
    made[1].fingerprint = "sha256:2"
    made[0].until = 5
    with Client(urls(made)[:2], timeout=1000, connect_timeout=1000) as client:
        for _ in range(5):
            next(client)
        made[0].path.down()
        with pytest.raises(loaderd.PlanMismatchError, match=made[1].url) as caught:
            next(client)
        assert caught.value.facts == {"run": "r", "want": "sha256:1", "have": "sha256:2"}
        with pytest.raises(loaderd.PlanMismatchError, match=made[1].url):
            client.commit(5)
    assert not made[1].actions and not made[1].tickets


def test_another_plan_at_a_rank_s_own_address(made: list[Made]) -> None:
    """All ranks read the plan's identity from the same daemon first, so that they cannot start with different plans."""
    made[1].fingerprint = "sha256:2"
    with (
        Client(urls(made), rank=1, world_size=2) as client,
        pytest.raises(loaderd.PlanMismatchError, match=made[1].url),
    ):
        next(client)


# --- actions ----------------------------------------------------------------------------------------------------------

ACTIONS: dict[str, Callable[[Client], object]] = {
    "commit": lambda c: c.commit(7),
    "leave": lambda c: c.leave(),
    "checkpoint": lambda c: c.checkpoint(),
    "seal": lambda c: c.seal(),
    "flush": lambda c: c.flush(),
    "info": lambda c: c.info().name,
}


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_go_to_another_daemon(made: list[Made], name: str) -> None:
    for fail in ("down", "hang"):
        with Client(urls(made)) as client:
            client.info()
            if fail == "down":
                made[0].path.down()
            else:
                made[0].path.swallow.set()
            begun = time.monotonic()
            assert ACTIONS[name](client) in (7, "r")
            assert time.monotonic() - begun < (2 if fail == "down" else 6)
            made[0].path.swallow.clear()
            if fail == "down":
                made[0].path.up()
    assert [a for a, _ in made[1].actions] == ([] if name == "info" else [name, name])
    assert not made[0].actions and not made[2].actions
