"""A run whose steps change their size, from a trainer's view."""

import numpy as np
import pytest

import loaderd
from loaderd.torch import StepLoader
from tokenized import SETTINGS, VOCABULARY, documents, publish_tokens


@pytest.fixture
def scheduled(daemon):
    """A daemon whose steps have 4 rows, 8 and 12 in a ramp from step 3 on, and then 16."""
    d = daemon(
        {
            **SETTINGS,
            "packing.buckets": "128",
            "steps.rows": 4,
            "steps.schedule": "[{from_step: 3, ramp_steps: 6, rows: 16}]",
            "serve.ahead": 2,
        }
    )
    publish_tokens(d.nats_url, documents(900))
    return d


def read(url, rank, world, step=None, steps=12):
    """Returns the rows of one rank's next steps, and the loader's tokens before each of them."""
    out, tokens = [], []
    with StepLoader(url, rank=rank, world_size=world) as loader:
        if step is not None:
            loader.load_state_dict(step)
        for _ in range(steps):
            tokens.append(loader.tokens)
            out.append(next(loader)["input_ids"].numpy().copy())
        return out, tokens, loader.state_dict()


def test_ranks_share_steps_of_every_phase(scheduled):
    """Two ranks, and four that resume, read the same rows of steps that grow."""
    whole, tokens, _ = read(scheduled.flight_url, 0, 1)
    assert [len(x) for x in whole] == [4, 4, 4, 4, 4, 8, 8, 12, 12, 16, 16, 16]
    assert tokens == list(np.cumsum([0, *(np.count_nonzero(x) for x in whole)])[:-1])
    halves = [read(scheduled.flight_url, r, 2, steps=6) for r in range(2)]
    quarters = [read(scheduled.flight_url, r, 4, halves[0][2], steps=6) for r in range(4)]
    for ranks, first in (halves, 0), (quarters, 6):
        for i in range(6):
            assert np.array_equal(np.concatenate([rows[i] for rows, _, _ in ranks]), whole[first + i])
        assert all(counted == tokens[first : first + 6] for _, counted, _ in ranks)
    info = loaderd.Client(scheduled.flight_url).info()
    assert [p.rows[128] for p in info.phases] == [4, 16] and info.rows == {128: 16}
    assert (info.phases[1].first_step, info.phases[1].start_rows) == (3, {128: 4})


@pytest.fixture
def extended(daemon):
    """A daemon whose steps have 8 rows of 128 tokens, and from step 4 on 2 rows of 512."""
    d = daemon(
        {
            **SETTINGS,
            "packing.buckets": "128",
            "steps.rows": 8,
            "steps.schedule": "[{from_step: 4, rows: 2, buckets: [512]}]",
            "serve.ahead": 2,
        }
    )
    publish_tokens(d.nats_url, documents(900))
    return d


def test_ranks_read_across_a_change_of_the_row_lengths(extended):
    """Ranks resume on both sides of the change, a control adds another one, and no token is read twice."""
    url = extended.flight_url
    whole, _, _ = read(url, 0, 1, steps=10)
    assert [x.shape for x in whole] == [(8, 128)] * 4 + [(2, 512)] * 6
    halves = [read(url, r, 2, steps=3) for r in range(2)]
    more = [read(url, r, 2, halves[0][2], steps=7) for r in range(2)]
    for i in range(10):
        ranks = [(halves[r][0] + more[r][0])[i] for r in range(2)]
        assert np.array_equal(np.concatenate(ranks), whole[i])
    client = loaderd.Client(url)
    info = client.info()
    assert (info.buckets, info.rows) == ((128, 512), {128: 8, 512: 2})
    assert [p.buckets for p in info.phases] == [(128,), (512,)] and info.phases[1].rows == {512: 2}
    with pytest.raises(loaderd.InvalidTicketError, match=r"ascending order"):
        client.schedule([{"rows": 2, "buckets": [256, 64]}])
    with StepLoader(url, rank=0, world_size=2) as loader:
        assert loader.get_mock_batch()["input_ids"].shape == (1, 512) and loader.rows(128) == 4
        first = [tuple(next(loader)["input_ids"].shape) for _ in range(6)]
        with pytest.raises(loaderd.InvalidTicketError, match=r"world size"):
            client.schedule([{"rows": 3, "buckets": [256]}])
        changed = client.schedule([{"rows": 4, "buckets": [256]}])["step"]
        later = [tuple(next(loader)["input_ids"].shape) for _ in range(changed + 4 - 6)]
    assert first + later == [(4, 128)] * 4 + [(1, 512)] * (changed - 4) + [(2, 256)] * 4
    client.seal()
    with StepLoader(url, rank=0, world_size=1) as loader:
        rows = [batch["input_ids"].numpy().copy() for batch in loader]
    ends = slice(1, VOCABULARY - 1)  # without padding and end-of-document tokens
    served = np.bincount(np.concatenate([x.ravel() for x in rows]), minlength=VOCABULARY)
    assert np.array_equal(served[ends], np.bincount(np.concatenate(documents(900)), minlength=VOCABULARY)[ends])
    assert {x.shape[1] for x in rows} == {128, 512, 256}


def test_change_of_the_schedule(scheduled):
    """A change during the run, refused if the ranks that read cannot share its rows, and its repetition."""
    client = loaderd.Client(scheduled.flight_url)
    with pytest.raises(loaderd.WorldMismatchError, match=r"the 4 rows"):
        read(scheduled.flight_url, 0, 8)
    with StepLoader(scheduled.flight_url, rank=0, world_size=1) as loader:
        before = [len(next(loader)["input_ids"]) for _ in range(4)]
        with pytest.raises(loaderd.InvalidTicketError, match=r"steps\.schedule"):
            client.schedule([{"from_step": 1, "rows": 8}])
        with pytest.raises(loaderd.InvalidTicketError, match=r"has \d+ bytes, at most 64512"):
            client.schedule([{"from_step": 100 + i, "rows": 8} for i in range(3000)])
        changed = client.schedule([{"rows": 32}, {"from_step": 24, "tokens": 1024}])["step"]
        sizes = before + [len(next(loader)["input_ids"]) for _ in range(22)]
    assert 4 < changed < 24
    want = [4, 4, 4, 4, 4, 8, 8, 12, 12, *[16] * 15]
    assert sizes == want[:changed] + [32] * (24 - changed) + [8] * 2
    whole, _, _ = read(scheduled.flight_url, 0, 1, steps=26)
    scheduled.kill()
    scheduled.start()
    again, _, _ = read(scheduled.flight_url, 0, 1, steps=26)
    assert all(np.array_equal(a, b) for a, b in zip(whole, again, strict=True))
    assert len(client.schedule()["schedule"]["phases"]) == 4
