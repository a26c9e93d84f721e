"""The daemons of a run in a client: given and learned addresses, the daemon that a rank calls, and the job in its
tickets."""

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import loaderd
from loaderd import TLS, Client
from loaderd._connection import CallTimeoutError, ConnectionLostError
from loaderd._daemons import Daemons
from loaderd._retry import Retry
from loaderd._stall_log import StallLog
from loaderd.torch import StepLoader
from made_daemons import STEPS, Made, asked, made, plan_until, urls
from waiting import no_thread_is_left

__all__ = ["made"]  # a fixture

CERTIFICATES = Path(__file__).parent / "certificates"


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    yield
    gc.collect()
    no_thread_is_left()


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["commas", "sequence", "both"])
def test_forms_of_addresses(made: list[Made], form: str) -> None:
    a, b, c = urls(made)
    given: str | list[str] = {"commas": f"{a}, {b},{c}", "sequence": [a, b, c], "both": [f"{a},{b}", c]}[form]
    made[0].path.down()
    with StepLoader(given, rank=0, world_size=1) as loader:
        assert (next(loader)["input_ids"] == 0).all() and loader.run == "r"
    assert loader.commit is not None


@pytest.mark.parametrize(
    "given", ["", ",", "grpc://a:1,", [], ["grpc://a:1", ""], "http://a:1", ["grpc://a:1", "ftp://b:1"]]
)
def test_addresses_that_are_none(given: str | list[str]) -> None:
    with pytest.raises(ValueError, match="want grpc://host:port"):
        Client(given)


def test_one_address_is_enough(made: list[Made]) -> None:
    """The other addresses are learned, each rank selects one daemon, and ranks fail over when the given one is
    killed."""
    for s in made:
        s.daemons = urls(made)[::-1]
    plan_until(made, 1)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(made[0].url, rank=r, world_size=2)) for r in (0, 1)]
        loader = stack.enter_context(StepLoader(made[0].url, rank=1, world_size=2))
        assert clients[0].info().daemons == tuple(urls(made)[::-1])
        for c in clients:
            next(c)
        next(loader)
        assert asked(made) == [[0], [0, 0], []]
        made[0].path.down()
        plan_until(made, STEPS)
        for _ in range(10):
            for c in clients:
                next(c)
        assert clients[0].next_step == 11 and asked(made) == [[0], [0, 0, 1], []], "one stream was opened anew"


def test_learned_addresses_that_nobody_can_reach(made: list[Made]) -> None:
    made[0].daemons = ["grpc://127.0.0.1:1", "grpc://nowhere.invalid:8815", "grpc+new://elsewhere"]
    with Client(made[0].url, steps=3) as client:
        assert [s.index for s in client] == [0, 1, 2]


def learned(given: str | list[str], listed: list[str], rank: int = 0, tls: TLS | None = None) -> Daemons:
    d = Daemons(given, rank=rank, tls=tls)
    d.learn(listed)
    return d


def test_who_came_by_tls_goes_nowhere_without() -> None:
    listed = ["grpc://a:1", "grpc+tls://b:1", "grpc+tls://c:1"]
    d = learned("grpc+tls://b:1", listed)
    assert sorted(d.url.split(",")) == listed[1:]
    d.close()
    for given, tls in (("grpc://a:1", TLS(ca=CERTIFICATES / "one.pem")), ("grpc+tls://a:1", None)):
        d = learned(given, [u.replace("+tls", "") for u in listed], tls=tls)
        assert all(u.startswith("grpc+tls://") for u in d.url.split(",")) and d.secure
        assert d.several == (tls is not None), "tls= means all of them"
        d.close()


def test_the_daemon_of_a_rank() -> None:
    """Ranks are distributed evenly, and so are those of a failed daemon."""
    listed = [f"grpc://{name}:1" for name in "abc"]
    first, second = [], []
    for rank in range(12):
        d = learned("grpc://a:1", listed, rank)
        own = d.settle()
        first.append(own.url)
        d.failed(own, loaderd.UnavailableError("gone"))
        other = d.pick()
        assert other is not None
        d.answered(other)
        assert d.pick() is other, "it stays there"
        second.append((own.url, other.url))
        last = d.pick({own.url, other.url})
        assert last is not None and d.pick({own.url, other.url, last.url}) is None
        d.failed(other, loaderd.UnavailableError("gone"))
        d.failed(last, loaderd.UnavailableError("gone"))
        assert d.pick() is own, "the failure that lies back furthest"
        d.close()
    assert [first.count(u) for u in listed] == [4, 4, 4]
    assert all(second.count((a, b)) == 2 for a in listed for b in listed if a != b)


def test_a_daemon_that_is_silent_rests_while_another_is_there() -> None:
    d = Daemons(["grpc://a:1", "grpc://b:1"])
    a, b = d.pick(), d.pick({"grpc://a:1"})
    assert a is not None and b is not None
    attempts = Retry(d, 300, 60, threading.Event(), StallLog(), "a step")
    for one, error in (
        (a, CallTimeoutError("no answer")),
        (b, ConnectionLostError("refused")),
        (b, ConnectionLostError("refused")),
        (b, ConnectionLostError("refused")),
    ):
        assert attempts.turn() is one
        attempts.failed(error)
    assert d.pick({b.url}) is None
    d.answered(a)
    assert d.pick() is a
    d.close()


@pytest.mark.parametrize(("last", "expected"), [(1, "no upstream"), (9, "deadline exceeded")])
def test_Retry_AnAttemptThatEndsWithTheTimeHasTheCauseBefore(last: float, expected: str) -> None:
    """An attempt that had most of the time has its own cause."""
    d = Daemons("grpc://a:1")
    attempts = Retry(d, 10, 60, threading.Event(), StallLog(), "a step")
    attempts.began -= 10
    attempts.attempt = attempts.began + 10 - last
    attempts.last = ConnectionLostError("no upstream")
    with pytest.raises(loaderd.UnreachableError, match=expected):
        attempts.failed(CallTimeoutError("deadline exceeded"))
    d.close()


def test_a_daemon_that_others_list_is_alive_again(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [f"grpc://{name}:1" for name in "ab"]
    d = learned("grpc://a:1", listed)
    a, b = d.pick(), d.pick({listed[0]})
    assert a is not None and b is not None
    d.answered(a)
    d.failed(a, loaderd.UnavailableError("gone"))
    d.answered(b)
    d.learn(listed)
    assert d.settle() is b, "it has just failed"
    monkeypatch.setattr("loaderd._daemons._REVIVAL", -1.0)
    d.learn(listed)
    assert d.settle() is a
    d.learn([listed[1], "grpc://c:1"])
    assert "grpc://c:1" in d.url and listed[0] in d.url, "the given one is kept"
    d.close()


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_tickets_name_the_job(made: list[Made]) -> None:
    """The daemon chooses the default job."""
    with Client(made[0].url) as client, StepLoader(made[1].url, job="eval", rank=0, world_size=1) as loader:
        next(client)
        assert np.array_equal(next(loader)["input_ids"].numpy(), np.zeros((2, 4)))
    with Client(made[2].url, job="probe") as client:
        next(client)
    assert ["job" in made[0].tickets[0], made[1].tickets[0]["job"], made[2].tickets[0]["job"]] == [
        False,
        "eval",
        "probe",
    ]
