"""Elastic jobs: ranks leave and join between two steps, while the others stay."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest

from elastic_ranks import Member, all_of, resize, train
from loaderd import Client, RankMissingError, WorldConflictError, WorldMismatchError
from loaderd._resize import agree
from loaderd._skips import Skips
from loaderd.torch import StepLoader
from rank_processes import read_alone, row_digests
from tokenized import SETTINGS, documents, publish_tokens
from waiting import wait_for

NUMBER = itertools.count()


@pytest.fixture(scope="module")
def served(module_daemon):
    """A sealed run of about 90 steps of 8 rows, and its content."""
    d = module_daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(800))
    with Client(d.flight_url) as client:
        client.seal()
    steps = read_alone(d.flight_url)
    assert len(steps) > 80 and all(len(s["rows"]) == 8 for s in steps)
    return d, steps


@pytest.fixture
def start(served):
    """A function that starts members of a job; they are killed at the end."""
    started = []

    def member(**arguments):
        started.append(Member(served[0].flight_url, **arguments))
        return started[-1]

    yield member
    for m in started:
        m.kill()


def world_of(d, job):
    with Client(d.flight_url) as client:
        return client.info().world_sizes.get(job)


def test_Resize_RanksAreKilledAndReturn(served, start):
    """4 ranks: two are killed during a step, and the others continue from that step until they return.

    Each row of every committed step was used once, and the ranks that stay are not restarted.
    """
    d, steps = served
    committed = {}

    def commit(members, until):
        while len(committed) < until:
            step, rows = train(members)
            assert step == len(committed)
            committed[step] = rows

    job = {"job": "killed"}
    a, b, c, e = members = [start(rank=r, world_size=4, **job) for r in range(4)]
    commit(members, 10)
    assert train(members)[0] == 10  # not committed: two ranks are killed before their update
    b.kill()
    e.kill()
    places = resize([a, c], step=10)
    assert [p[:3] for p in places] == [(0, 2, 10), (1, 2, 10)]
    assert world_of(d, "killed") == (2, 10)
    commit([a, c], 25)
    state = a.call("state")
    b, e = start(**job), start(**job)
    all_of([b, e], "load", state)
    members = [b, a, e, c]  # the returned ranks get other places
    places = resize(members)
    assert [p[:3] for p in places] == [(r, 4, 25) for r in range(4)]
    assert len({p[3] for p in places}) == 1, "tokens of the run"
    commit(members, 60)
    assert committed == {i: steps[i]["rows"] for i in range(60)}
    assert world_of(d, "killed") == (4, 25)

    state = all_of(members, "state")
    assert state == [state[0]] * 4
    for m in members:
        m.kill()
    members = [start(rank=r, world_size=2, **job) for r in range(2)]  # a restart of the whole job
    all_of(members, "load", state[0])
    commit(members, 70)
    assert committed == {i: steps[i]["rows"] for i in range(70)}
    assert world_of(d, "killed") == (2, 60)


def test_Resize_RestartAfterLossOfAMachine(served, start):
    """A restart with fewer ranks begins 5 s after the last report of the lost ranks, whose connections stay open.

    A lost rank that returns gets an error instead of rows. While a rank reads, a restart is refused.
    """
    d, steps = served
    job = {"job": "lost"}
    old = [start(rank=r, world_size=4, **job) for r in range(4)]
    resize(old)  # the plan records the world size
    assert train(old) == (0, steps[0]["rows"])
    state = all_of(old, "state")[0]
    other = start(rank=0, world_size=2, **job)
    other.send("train")
    assert "with open streams of ranks 0, 1, 2, 3" in other.error()
    other.kill()
    for m in old[:2]:
        m.kill()
    new = [start(rank=r, world_size=2, **job) for r in range(2)]
    all_of(new, "load", state)
    for m in old[2:]:
        m.stop()
    began = time.monotonic()
    assert train(new) == (1, steps[1]["rows"])
    waited = time.monotonic() - began
    assert waited < 10, "the connections end after 50 s"
    assert 'former_ranks=4 open="ranks 2, 3, the first at 127.0.0.1:' in d.log.read_text()
    for m in old[2:]:
        m.resume()
        m.send("read_on")
    for m in old[2:]:
        assert "WorldConflictError" in m.error()
    assert train(new) == (2, steps[2]["rows"])
    assert world_of(d, "lost") == (2, 1)


@pytest.fixture
def pair(served):
    """Two clients, rank 0 and 1 of 2 of a separate job, each with some steps read and more prefetched."""
    job = f"pair-{next(NUMBER)}"
    with Client(served[0].flight_url, job=job, rank=0, world_size=2) as a:
        with Client(served[0].flight_url, job=job, rank=1, world_size=2) as b:
            for _ in range(4):
                assert next(a).index == next(b).index
            yield a, b


@contextmanager
def waiting(client, *arguments, **named):
    """Calls resize in a thread; yields a function that returns its error or None, once the daemon has the request."""
    sent = threading.Event()
    request = client._one

    def one(action, **body):
        answer = request(action, **body)
        if action == "resize":
            sent.set()
        return answer

    client._one = one
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.resize, *arguments, **named)
        assert sent.wait(60)
        yield lambda: future.exception(60)


CONFLICTS = {
    "step": (dict(rank=1, world_size=2, step=3), (), "rank 0 requested 2 ranks from step 4"),
    "world size": (dict(rank=1, world_size=4), (), "rank 0 requested 2 ranks from step 4"),
    "rank": (dict(rank=0, world_size=2), (), "another process requested to be rank 0"),
    "skips": (dict(rank=1, world_size=2), ((6, 8),), r"it skips the steps \[\[6,8\]\], and rank 0 requested"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_Resize_RanksThatDisagree(pair, name):
    """The second rank gets an error that names the request of the first. Corrected, both read on."""
    a, b = pair
    wrong, skips, message = CONFLICTS[name]
    with waiting(a, 0, 2) as outcome:
        b.keep_skips(Skips.checked(skips))
        with pytest.raises(WorldConflictError, match=message) as conflict:
            b.resize(**wrong)
        assert conflict.value.facts["step"] == str(wrong.get("step", 4))
        b.keep_skips(Skips.checked(()))
        b.resize(1, 2)
        assert outcome() is None
    assert next(a).index == next(b).index == 4


def test_Resize_MissingRanksAreNamed(pair):
    """The error names them, and the request that was refused meanwhile. Both clients keep their ranks and steps."""
    a, b = pair
    with waiting(a, 0, 2, timeout=6) as outcome:
        with pytest.raises(WorldConflictError):
            b.resize(2, 4)
        pending = f'Rank 1 of 2 of job "{a._job}" has not called resize at step 4 for '
        wait_for(lambda: pending in str(b.status()))
        error = outcome()
    assert isinstance(error, RankMissingError) and error.facts == {"rank": "1", "world": "2", "step": "4"}
    assert "rank 1 of 2 has not agreed on the world size 2 from step 4" in str(error)
    request = {"job": a._job, "session": a._session, "rank": 0, "world": 2, "step": 4}
    assert a._one("resize", **request)["missing"] == [1]
    with pytest.raises(WorldConflictError):
        b.resize(2, 4)
    with pytest.raises(RankMissingError, match=r"from step 4 \(rank 2 of 4 of job .* cannot read from step 4"):
        a.resize(0, 2, timeout=0)
    with pytest.raises(RankMissingError, match=r"ranks 0, 1, 2, 3, 4, 5, 6 of 8 have not agreed"):
        b.resize(7, 8, timeout=0)
    assert (a.rank, a.world_size, b.rank, b.world_size) == (0, 2, 1, 2)
    assert next(a).index == next(b).index == 4


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 3), WorldMismatchError, "3 ranks cannot share the 8 rows .*: 1 2 4 8"),
        ((0, 16), WorldMismatchError, "16 ranks cannot share the 8 rows .*: 1 2 4 8"),
        ((2, 2), ValueError, "rank 2 of 2"),
        ((-1, 2), ValueError, "rank -1 of 2"),
    ],
)
def test_Resize_InvalidSizes(served, pair, arguments, error, message):
    """The loader keeps its rank and its step."""
    with pytest.raises(error, match=message):
        pair[0].resize(*arguments)
    assert next(pair[0]).index == 4
    with StepLoader(served[0].flight_url, rank=0, world_size=4, job="invalid") as loader:
        next(loader)
        with pytest.raises(error, match=message):
            loader.resize(*arguments)
        with pytest.raises(
            ValueError, match="cannot continue at step 7: this loader is at step 1 and can go back to step 0"
        ):
            loader.resize(0, 1, step=7)
        assert (loader.step, loader.rank, loader.world_size) == (1, 0, 4)
        next(loader)
        assert loader.step == 2


def test_Resize_RankThatTakesNoPart(served, pair):
    """A rank of the former world size, and one that joins without `resize`, get an error instead of rows."""
    a, b = pair
    a.resize(0, 1)
    assert [next(a).index for _ in range(3)] == [4, 5, 6]
    message = "rank 1 of 2 of job .* cannot read step .*: the job has 1 ranks from step 4"
    with pytest.raises(WorldConflictError, match=message) as conflict:
        for _ in range(90):
            next(b)
    assert conflict.value.facts["agreed"] == "1" and conflict.value.facts["from_step"] == "4"
    with StepLoader(served[0].flight_url, rank=3, world_size=4, job=a._job, timeout=30) as loader:
        with pytest.raises(WorldConflictError, match=r"rank 3 of 4 .* cannot read step 0"):
            next(loader)
    assert next(a).index == 7


def test_Resize_GoesBackToAStepWhoseUpdateFailed(served):
    """A state after it has the tokens of each step once."""
    d, steps = served
    with StepLoader(d.flight_url, rank=0, world_size=2, job="back") as loader:
        batches = [next(loader) for _ in range(6)]
        tokens = loader.tokens
        loader.resize(0, 1, step=4)
        assert [row_digests(next(loader)) for _ in range(2)] == [steps[i]["rows"] for i in (4, 5)]
        assert (loader.step, loader.tokens) == (6, tokens)
        assert len(batches) == 6 and loader.state_dict()["step"] == 6
        loader.skip(3)
        loader.resize(0, 1)
        assert loader.step == 9
        assert row_digests(next(loader)) == steps[9]["rows"]


def test_Resize_AgainAtTheSameStep(served, pair):
    """A rank is replaced before the first step with the agreed world size. The other one waits for the new process."""
    d, _ = served
    a, b = pair
    with waiting(a, 0, 2) as outcome:
        b.resize(1, 2)
        assert outcome() is None
    b.close()
    with waiting(a, 0, 2) as outcome, Client(d.flight_url, job=a._job, step=4) as c:
        c.resize(1, 2)
        assert outcome() is None
        assert next(a).index == next(c).index == 4


def test_Resize_BeforeAndAfterSkippedSteps(served, pair):
    """A rank that joins begins after the skipped steps, one that stays is before them."""
    d, _ = served
    a, b = pair
    b.close()
    a.skip(3)
    skip = a.skips
    assert (a.next_step, skip) == (7, ((4, 7),))
    with waiting(a, 0, 2) as outcome, Client(d.flight_url, job=a._job, step=7, skip=skip) as c:
        c.resize(1, 2)
        assert outcome() is None
        assert next(a).index == next(c).index == 7


def test_Resize_OfUnchangedRanksComparesSkips(pair):
    """Ranks that have skipped different numbers of steps find out: the error has the skips of both."""
    a, b = pair
    a.skip(3)
    b.skip(2)
    message = r"it skips the steps \[\[4,6\]\], and rank 0 requested 2 ranks from step 4 skipping the steps \[\[4,7\]\]"
    with waiting(a, a.rank, a.world_size) as outcome:
        with pytest.raises(WorldConflictError, match=message):
            b.resize(b.rank, b.world_size)
        b.keep_skips(Skips.checked(a.skips))
        b.resize(b.rank, b.world_size)
        assert outcome() is None
    assert next(a).index == next(b).index == 7


@pytest.mark.parametrize("joined", [True, False])
def test_Resize_LastRankJoinsAtTheTimeout(joined):
    """The withdrawal of a request that has been agreed on meanwhile is no error."""
    sent = []

    def request(**body):
        sent.append(body)
        return {"agreed": joined} if body.get("left") else {"agreed": False, "missing": [1], "missing_count": 1}

    with nullcontext() if joined else pytest.raises(RankMissingError):
        agree(request, {"world": 2, "step": 4}, 0, threading.Event())
    assert len(sent) == 2 and sent[0] | {"left": True} == sent[1]


def test_Resize_IsShown(served):
    """The status, the ledger and the metrics have the first step of the world size."""
    d, _ = served
    with Client(d.flight_url, job="shown", rank=0, world_size=2) as client:
        for _ in range(3):
            next(client)
        client.resize(0, 1)
        next(client)
        wait_for(lambda: [j["since_step"] for j in client.status().figures["jobs"] if j["job"] == "shown"] == [3])
        assert client.ledger(3)["world_sizes"]["shown"] == {"step": 3, "ranks": 1}
        assert "shown" not in client.ledger(2).get("world_sizes", {})
        assert client.info().world_sizes["shown"] == (1, 3)
        with d.open("/metrics") as response:
            assert 'loaderd_job_world_step{run="default",train_job="shown"} 3' in response.read().decode()
        client.leave("shown")
        assert "shown" not in client.info().world_sizes
