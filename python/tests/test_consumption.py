"""The client reports to the daemon what a trainer has taken, and logs the daemon's alerts."""

import logging
import os
import threading
from collections.abc import Callable, Iterator

import pyarrow.flight as flight
import pytest

import loaderd
from loaderd import Client, Prefetcher, _consumption
from loaderd.torch import StepLoader
from made_daemons import STEPS, Made, made, plan_until, urls  # noqa: F401
from test_errors import status
from test_waits import reading_on
from waiting import no_thread_is_left, wait_for

LIMIT = 60  # seconds until a wait fails


@pytest.fixture
def daemons(made: list[Made], monkeypatch: pytest.MonkeyPatch) -> list[Made]:  # noqa: F811
    """Daemons that receive reports, which are sent every 10 ms."""
    monkeypatch.setattr(_consumption, "REPORT_SECONDS", 0.01)
    return made


@pytest.fixture
def by_count(daemons: list[Made], monkeypatch: pytest.MonkeyPatch) -> Made:
    """A daemon that only gets reports triggered by a number of steps."""
    monkeypatch.setattr(_consumption, "REPORT_SECONDS", 1000.0)
    return daemons[0]


def report(daemon: Made, **want: object) -> dict[str, object]:
    """Returns the next report that has these values."""
    while True:
        found = daemon.consumed.get(timeout=LIMIT)
        if all(found[k] == v for k, v in want.items()):
            return found


def opened(kind: str, url: str) -> tuple[Iterator[object], Callable[[], None]]:
    """Returns a reader of a kind as rank 1 of 2, and its close function."""
    if kind == "loader":
        loader = StepLoader(url, rank=1, world_size=2, job="eval")
        return loader, loader.close
    client = Client(url, rank=1, world_size=2, job="eval")
    if kind == "client":
        return client, client.close
    stream = client.stream()
    if kind == "stream":
        return stream, stream.cancel
    reader = Prefetcher(stream, depth=4)
    return reader, reader.close


def test_Reporter_MayBeClosedWhileItsThreadStarts(daemons: list[Made], monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def close_first(thread: threading.Thread) -> None:
        if thread.name == "loaderd-report":
            stream._reporter.close(left=False)
        start(thread)

    stream = Client(daemons[0].url, rank=1, world_size=2, job="eval").stream()
    monkeypatch.setattr(threading.Thread, "start", close_first)
    next(stream)
    stream.cancel()
    no_thread_is_left()


@pytest.mark.parametrize("kind", ["client", "loader", "stream", "prefetcher"])
def test_Consumption_ReportsFollowTheTrainer(daemons: list[Made], kind: str) -> None:
    """Reports count the steps that the trainer received, not prefetched ones."""
    d = daemons[0]
    d.until = 3
    reader, close = opened(kind, d.url)
    for n in range(3):
        next(reader)
        got = report(d, taken=n + 1, waiting=False)
    [ticket] = d.tickets
    assert ticket["taken"] == 0 and len(str(ticket["session"])) == 32
    assert (got["job"], got["rank"], got["world"], got["peer"]) == ("eval", 1, 2, 0)
    of_the_ticket = {k: ticket[k] for k in ("run", "job", "rank", "world", "peer", "session")}
    assert of_the_ticket.items() <= got.items()
    later = report(d, taken=3)
    assert later["still"] > got["still"] >= 0, "it is reported again while nothing changes"
    take = reading_on(reader)
    waiting = report(d, waiting=True)
    assert waiting["taken"] == 3 and not waiting["left"]
    d.until = STEPS
    take()
    assert not report(d, taken=4, waiting=False)["left"]
    close()
    assert report(d, left=True)["taken"] == 4


def test_Consumption_EndOfRun(daemons: list[Made]) -> None:
    """A trainer that received the end has consumed the last step."""
    with Client(daemons[0].url) as client:
        assert len(list(client)) == STEPS
        report(daemons[0], taken=STEPS, waiting=True)


def test_Reporter_CountsSteps(by_count: Made) -> None:
    """A report is sent when half of the window was taken, before the next interval."""
    by_count.receipt = lambda: {"window": 20}
    with Client(by_count.url) as client:
        for n, taken in ((4, 4), (9, None), (1, 14), (10, 24)):
            for _ in range(n):
                next(client)
            if taken:
                assert by_count.consumed.get(timeout=LIMIT)["taken"] == taken
        assert by_count.consumed.empty()


def test_Reporter_SilentDaemonDelaysNoStep(by_count: Made) -> None:
    over = threading.Event()
    by_count.receipt = lambda: {"window": int(over.wait(LIMIT))}
    with Client(by_count.url) as client:
        assert [step.index for step in client] == list(range(STEPS))
        assert by_count.consumed.get(timeout=LIMIT)["taken"] >= 4
    over.set()
    no_thread_is_left()


def test_Reporter_GoesToAnotherDaemon(daemons: list[Made]) -> None:
    """The trainer needs no step meanwhile, so the stream has no reason to fail over."""
    for d in daemons:
        d.daemons = urls(daemons)
    with Client(urls(daemons), rank=0, prefetch_factor=1) as client:
        next(client)
        [first] = [d for d in daemons if d.tickets]
        report(first, taken=1)
        first.path.down()
        others = [d for d in daemons if d is not first]
        wait_for(lambda: any(not d.consumed.empty() for d in others))
        assert all(not d.tickets for d in others)
        [second] = [d for d in others if not d.consumed.empty()]
        next(client)
        report(second, taken=2)


BAD_ANSWERS: list[dict[str, object]] = [
    {"window": "many"},
    {"window": -1, "alert": 7},
    {"alert": {"facts": 7}},
    {"alert": {"message": ["?"], "reason": {}}},
]


@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_Reporter_BadAnswer(daemons: list[Made], answer: dict[str, object]) -> None:
    daemons[0].receipt = lambda: answer
    with Client(daemons[0].url) as client:
        for n in range(1, 4):
            next(client)
            report(daemons[0], taken=n)


def test_Reporter_ReconnectedStream(daemons: list[Made]) -> None:
    """The new ticket has the previous session, and what the trainer took by then; the client has not left."""
    d = daemons[0]
    with Client(d.url, prefetch_factor=3) as client:
        d.until = 6
        next(client)
        d.path.down()
        d.path.up()
        d.until = 20
        for _ in range(10):
            next(client)
        first, second = d.tickets[0], d.tickets[-1]
        assert second["session"] == first["session"] and 0 < second["taken"] <= second["step"]
        report(d, taken=client.next_step)
        d.refusal = loaderd_error("DOCUMENT_LOST")
        with pytest.raises(loaderd.DocumentLostError):
            list(client)
        d.until = STEPS
        next(client)
        assert d.tickets[-1]["session"] == first["session"] and d.tickets[-1]["taken"] == d.tickets[-1]["step"]
        seen = [report(d, taken=client.next_step)]
        while not d.consumed.empty():
            seen.append(d.consumed.get())
        assert not any(r["left"] for r in seen)


def loaderd_error(reason: str) -> Exception:
    return flight.FlightServerError(reason, extra_info=status(13, f"{reason}: gone", reason, {}))


def test_Reporter_LoaderThatGoesBack(daemons: list[Made]) -> None:
    """A restored state opens a stream at another step in the same session, without a report of leaving."""
    d = daemons[0]
    with StepLoader(d.url, rank=0, world_size=1) as loader:
        next(loader)
        state = loader.state_dict()
        for _ in range(3):
            next(loader)
        report(d, taken=4)
        loader.load_state_dict(state)
        next(loader)
        assert not report(d, taken=2)["left"]
        assert [t["taken"] for t in d.tickets] == [0, 1] and len({str(t["session"]) for t in d.tickets}) == 1


def test_Reporter_ForkedChild(daemons: list[Made]) -> None:
    """A forked child reports neither progress nor that the client has left."""
    d = daemons[0]
    with Client(d.url) as client:
        next(client)
        report(d, taken=1)
        pid = os.fork()
        if pid == 0:
            client.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        next(client)
        assert not report(d, taken=2)["left"]


ALERT = {
    "reason": "RANK_MISSING",
    "message": 'Rank 3 of 4 of job "pretrain" has not consumed step 34 for 12 s',
    "do": "look at its process",
    "facts": {"job": "pretrain", "rank": "3", "step": "34", "since_seconds": "12"},
}
LOGGED = f"{ALERT['message']}; look at its process (RANK_MISSING)"


def test_Alerts_LoggedWhileTheTrainerHangs(
    daemons: list[Made], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert is logged once per cause, again after a while, and once when it is resolved."""
    caplog.set_level(logging.INFO, logger="loaderd")
    d = daemons[0]

    def lines() -> list[str]:
        return [r.getMessage() for r in caplog.records]

    with Client(d.url) as client:
        next(client)
        d.receipt = lambda: {"alert": ALERT}
        wait_for(lines)
        for _ in range(3):
            report(d)
        assert lines() == [LOGGED]
        other = ALERT | {"message": "rank 2", "facts": {"rank": "2"}}
        d.receipt = lambda: {"alert": other}
        wait_for(lambda: len(lines()) == 2)
        d.receipt = dict
        wait_for(lambda: len(lines()) == 3)
        assert lines()[2] == "resolved: rank 2"
        monkeypatch.setattr(_consumption, "AGAIN_SECONDS", 0.0)
        d.receipt = lambda: {"alert": ALERT}
        wait_for(lambda: lines().count(LOGGED) > 2)


@pytest.mark.parametrize("kind", [loaderd.RankMissingError, loaderd.StreamFullError])
def test_Errors_ThatPass(daemons: list[Made], kind: type[loaderd.LoaderdError]) -> None:
    """No other daemon is called, because it would return the same cause."""
    plan_until(daemons, 0)
    daemons[0].refusal = loaderd_error(kind.reason)
    with Client(urls(daemons), timeout=1) as client, pytest.raises(kind):
        next(client)
    assert not any(d.tickets for d in daemons[1:])


def test_Errors_DuplicateRank(daemons: list[Made]) -> None:
    """It is raised immediately."""
    plan_until(daemons, 0)
    daemons[0].refusal = loaderd_error("DUPLICATE_RANK")
    with Client(urls(daemons)) as client, pytest.raises(loaderd.DuplicateRankError):
        next(client)
    assert [len(d.tickets) for d in daemons] == [1, 0, 0]
