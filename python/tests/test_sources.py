"""A run with several sources from a trainer's view: the source of each token, losses by source, and changes of the
mixture."""

import json
import math
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.flight
import pytest
import torch

import loaderd
from loaderd import MixtureChange, SourceCount
from loaderd._step import part_of, step_of
from loaderd._wire import Metadata
from loaderd.torch import StepLoader, losses
from test_step import metadata, record
from tokenized import SETTINGS, documents, publish_tokens

MIXED = {
    **SETTINGS,
    "packing.pool": 16,
    "packing.max_age": 64,
    "shuffle.window": 8,
    "sources.code.weight": 1,
    "sources.web.weight": 3,
    "serve.ahead": 2,
    "serve.checkpoint_steps": 5,
}
CODE, WEB = 0, 1


@pytest.fixture
def mixed(daemon):
    """A daemon whose documents of code have only tokens below 500, and those of web the others."""
    d = daemon(MIXED)
    publish_tokens(d.nats_url, [t // 2 for t in documents(1000, 1)], "code")
    publish_tokens(d.nats_url, [500 + t // 2 for t in documents(2000, 2)], "web")
    return d


def truth(ids: np.ndarray, padding: np.ndarray) -> np.ndarray:
    """Returns sources derived from the tokens; an end-of-document token has the source of the token before it."""
    out = np.where(ids < 500, CODE, WEB)
    for row, end in zip(*np.nonzero(ids == SETTINGS["tokenizer.end"]), strict=True):
        out[row, end] = out[row, end - 1]
    out[padding] = -1
    return out


def test_tokens_know_their_sources(mixed):
    with (
        loaderd.Client(mixed.flight_url, sources=True, steps=20, timeout=20) as client,
        loaderd.Client(mixed.flight_url, steps=1, job="plain") as plain,
    ):
        assert client.info().sources == ("code", "web")
        total = {"code": 0, "web": 0}
        for step in client:
            padding = step.segment_ids() == 0
            expected = truth(step.input_ids, padding)
            assert np.array_equal(step.source_ids(), expected)
            counts = {
                n: SourceCount((expected == i).sum(), (expected == i).sum())
                for i, n in enumerate(total)
                if (expected == i).any()
            }
            assert step.source_counts == counts and step.step_sources == 2
            for name, count in counts.items():
                total[name] += count.tokens
        assert total["web"] / sum(total.values()) == pytest.approx(0.75, abs=0.02)
        ledger = client.ledger(0, documents=True)
        assert (
            {p["source"] for row in ledger["rows"] for p in row}
            == {d["source"] for d in ledger["documents"]}
            == {"code", "web"}
        )
        piece = ledger["rows"][0][0]
        assert (
            client.find(source=piece["source"], sequence=piece["sequence"])[0]["pieces"][0]["source"] == piece["source"]
        )
        with pytest.raises(loaderd.InvalidTicketError, match="separate sequences"):
            client.find(sequence=1)
        with pytest.raises(ValueError, match="sources=True"):
            next(plain).source_ids()


def test_batches_and_losses_by_source(mixed):
    """The sums over two ranks are those of the whole step, also for a model that shifts labels itself."""
    with (
        StepLoader(mixed.flight_url, labels="shifted", timeout=20) as whole,
        StepLoader(mixed.flight_url, fields=["input_ids", "labels"], job="plain") as plain,
    ):
        assert whole.sources == ("code", "web")
        mock = whole.get_mock_batch()
        batches = [next(whole) for _ in range(6)]
        assert (
            set(mock) == set(batches[0])
            and mock["sources"].dtype == batches[0]["sources"].dtype
            and mock["num_sources"] == 2
        )
        assert set(next(plain)) == {"input_ids", "labels"}
    halves = []
    for rank in range(2):
        with StepLoader(
            mixed.flight_url,
            rank=rank,
            world_size=2,
            job="halves",
            fields=["input_ids", "labels", "sources", "num_sources"],
            dtype=torch.int32,
        ) as half:
            halves.append([next(half) for _ in range(6)])
    for n, batch in enumerate(batches):
        ids, labels, sources = (batch[k].numpy() for k in ("input_ids", "labels", "sources"))
        assert np.array_equal(sources, truth(ids, batch["segment_ids"].numpy() == 0))
        values = torch.arange(ids.size, dtype=torch.float32).reshape(ids.shape).requires_grad_()
        got = losses.by_source(values, batch)
        used = labels != -100
        flat = values.detach().numpy()
        assert got.shape == (2, 2) and got.is_contiguous() and not got.requires_grad
        for source in (CODE, WEB):
            of = used & (sources == source)
            assert got[:, source].tolist() == pytest.approx([flat[of].sum(), of.sum()], rel=1e-6)
        assert got[1].sum() == batch["num_loss_tokens"]
        assert torch.equal(losses.by_source(values.reshape(-1), batch), got)
        wide = losses.by_source(values, batch, 4)
        assert torch.equal(wide[:, :2], got) and not wide[:, 2:].any()
        assert torch.equal(losses.by_source(values, batch, 1), got[:, :1])
        # Unshifted labels.
        ones = [
            losses.by_source(torch.ones(h[n]["labels"].shape[0], h[n]["labels"].shape[1] - 1), h[n]) for h in halves
        ]
        assert torch.equal(sum(ones)[1], got[1]) and torch.equal(sum(ones)[0], got[1])
        bad = torch.where(torch.from_numpy(used), values, torch.nan)
        assert torch.equal(losses.by_source(bad, batch), got)  # losses without a label may have any value
    with pytest.raises(ValueError, match="want one per token"):
        losses.by_source(torch.ones(7), batches[0])


def test_a_trainer_changes_the_mixture(mixed):
    """Shares change from the returned step on; nothing changes before it, and a resumed loader reads the same."""
    with StepLoader(mixed.flight_url, timeout=20) as loader, loaderd.Client(mixed.flight_url) as client:
        batches = [next(loader)["sources"] for _ in range(5)]
        for weight in (math.nan, math.inf, -1, 1e10):
            for change in ({"weights": {"code": weight}}, {"add": {"new": {"weight": weight}}}):
                with pytest.raises(ValueError, match=r"weight .* of source (code|new): want a number from 0 to 1e9"):
                    client.mix(**change)
        tried = client.mix({"code": 3}, dry_run=True)
        assert tried["target"] == pytest.approx({"code": 0.8, "web": 0.2}) and tried["dry_run"]  # web keeps .75
        first = loader.set_mixture({"code": 1, "web": 0}).step
        assert first >= 5
        batches += [next(loader)["sources"] for _ in range(first + 70 - 5)]
        late = torch.cat([b.reshape(-1) for b in batches[first + 50 :]])
        assert (late == CODE).sum() > 0.95 * (late >= 0).sum()
        early = torch.cat([b.reshape(-1) for b in batches[:first]])
        assert 0.2 < (early == CODE).sum() / (early >= 0).sum() < 0.3
        state = client.mix()
        assert state["target"] == {"code": 1, "web": 0} and [s["name"] for s in state["sources"]] == ["code", "web"]
        assert state["recent_steps"] <= 100 and sum(s["recent_share"] for s in state["sources"]) == pytest.approx(1)
        assert [s["name"] for s in client.stats()["sources"]] == ["code", "web"]
        for weights in ({"code": 0, "web": 0}, {"nix": 1}):
            with pytest.raises(loaderd.InvalidTicketError):
                loader.set_mixture(weights)
        with pytest.raises(loaderd.InvalidTicketError, match="without a change"):
            client.mix(dry_run=True)
    mixed.kill()
    mixed.start()
    with StepLoader(mixed.flight_url, timeout=20) as again:
        for step, expected in enumerate(batches):
            assert torch.equal(next(again)["sources"], expected), step


def test_mix_keeps_what_the_change_before_set(mixed):
    """Consecutive changes add up, whether client, action or command requests them."""

    def command(**weights):
        flags = [f"--set={name}={weight}" for name, weight in weights.items()]
        done = subprocess.run(
            [mixed.binary, "mix", "--daemon", mixed.flight_url, "--json", *flags],
            capture_output=True,
            check=True,
            timeout=60,
        )
        return json.loads(done.stdout)

    with loaderd.Client(mixed.flight_url) as client, pyarrow.flight.connect(mixed.flight_url) as flight:

        def action(**weights):
            (result,) = flight.do_action(
                pyarrow.flight.Action("mix", json.dumps({"weights": weights}).encode()), mixed.with_token
            )
            return json.loads(result.body.to_pybytes())

        def call(**weights):
            return client.mix(weights)

        code, web = 0.25, 0.75
        for first in (call, action, command):
            for second in (call, action, command):
                for weights in ({"code": 3.0}, {"web": 3.0}):
                    code, web = weights.get("code", code), weights.get("web", web)
                    code, web = code / (code + web), web / (code + web)
                    change = first if "code" in weights else second
                    assert change(**weights)["target"] == pytest.approx({"code": code, "web": web}, abs=1e-5), (
                        first,
                        second,
                    )


def test_mix_that_is_repeated_changes_once(mixed):
    """A change whose answer was lost is requested again, by its request id, and is in the plan once."""
    with loaderd.Client(mixed.flight_url) as client:
        first = client._one("mix", weights={"code": 3.0}, request_id="a")
        other = client.mix({"web": 1.0})
        assert client._one("mix", weights={"code": 3.0}, request_id="a") == first
        assert client.mix({"code": 1.0}, dry_run=True)["target"] == pytest.approx(
            {"code": 1 / (1 + other["target"]["web"]), "web": other["target"]["web"] / (1 + other["target"]["web"])}
        )


def test_sources_that_come_go_and_end(mixed):
    """A source that is added later has the next number, which its tokens then have; all sources end, and so does the
    run."""
    with StepLoader(mixed.flight_url, timeout=30) as loader, loaderd.Client(mixed.flight_url) as client:
        next(loader)
        changed = client.mix(add={"math": {"weight": 1}}, remove=["web"])
        assert changed["target"] == pytest.approx({"code": 0.2, "math": 0.8})
        publish_tokens(mixed.nats_url, documents(300, 3), "math")
        assert client.seal("math") == 300
        with pytest.raises(loaderd.InvalidTicketError, match="no source"):
            client.seal("nix")
        client.seal()
        rest = list(loader)
        assert loader.sources == ("code", "web", "math")
        assert any((b["sources"] == 2).any() for b in rest)
        # Of the whole step: it is one rank's.
        assert [b["num_sources"] for b in rest] == [max(2, int(b["sources"].max()) + 1) for b in rest]


def test_StepLoader_OneSource(daemon):
    d = daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(900))
    with (
        StepLoader(d.flight_url, timeout=30) as loader,
        StepLoader(d.flight_url, fields=["sources"], job="asks", timeout=30) as asks,
    ):
        assert (
            loader.sources == ("docs",) and "sources" not in next(loader) and "sources" not in loader.get_mock_batch()
        )
        assert set(next(asks)["sources"].unique().tolist()) <= {0, -1}
        assert loader.set_mixture({"docs": 3}).target == {"docs": 1}
        with pytest.raises(loaderd.InvalidTicketError, match="web"):
            loader.set_mixture({"web": 1})


def test_malformed_sources_are_refused():
    rows = [[[1, 2], [3]], [], [[4, 5, 6, 7]]]
    batch = record(rows, 4)

    def read(numbers, kind=pa.uint16(), sources=3):
        named = batch.append_column("sources", pa.array(numbers, pa.list_(kind)))
        meta = Metadata(**{**vars(metadata(3, 4)), "step_sources": sources})
        return step_of([meta], [part_of(named, meta)])

    assert read([[2, 0], [], [1]]).source_ids().tolist() == [[2, 2, 0, -1], [-1] * 4, [1] * 4]
    for numbers, kind, sources in (
        ([[2], [0], [1]], pa.uint16(), 3),
        ([[2, 0], [], [1]], pa.int32(), 3),
        ([[2, 0], [], [1]], pa.uint16(), 2),
        ([[2, 0], [], [1]], pa.uint16(), None),
    ):
        with pytest.raises(loaderd.ProtocolError):
            read(numbers, kind, sources)
    body = {k: v for k, v in vars(metadata(3, 4)).items() if k not in ("sources", "step_sources", "weighted")}
    good = Metadata.decode(
        json.dumps(body | {"sources": {"web": {"tokens": 3, "loss_tokens": 2, "more": 1}}, "step_sources": 2}).encode()
    )
    assert good.sources == {"web": SourceCount(3, 2)} and good.step_sources == 2
    for bad in (
        [],
        3,
        None,
        {"web": 1},
        {"web": {"tokens": 1}},
        {"web": {"tokens": -1, "loss_tokens": 0}},
        {"web": {"tokens": 1.5, "loss_tokens": 0}},
    ):
        with pytest.raises(loaderd.ProtocolError, match="sources"):
            Metadata.decode(json.dumps(body | {"sources": bad}).encode())
    assert MixtureChange.decode({"run": "r", "step": 3, "target": {"web": 1}, "more": 0}) == MixtureChange(
        3, {"web": 1.0}
    )
    for bad in (
        {},
        {"step": "3", "target": {}},
        {"step": 3},
        {"step": 3, "target": [1]},
        {"step": 3, "target": {"web": "1"}},
        {"step": 3, "target": {}, "again": 1},
    ):
        with pytest.raises(loaderd.ProtocolError, match="result of mix"):
            MixtureChange.decode(bad)


def test_a_change_that_is_decided_on_once(mixed):
    """The plan has one change per position of the loader: the first one requested there, regardless of later
    requests."""
    with StepLoader(mixed.flight_url, timeout=20) as loader, loaderd.Client(mixed.flight_url) as client:
        for _ in range(3):
            next(loader)
        made = loader.set_mixture({"code": 1, "web": 3}, once=True)
        assert made.target == {"code": 0.25, "web": 0.75} and made.step >= 3 and not made.again
        state = loader.state_dict()
        next(loader)
        other = loader.set_mixture({"code": 1, "web": 1}, once=True)
        assert other.target == {"code": 0.5, "web": 0.5} and not other.again
        with StepLoader(mixed.flight_url, job="resumed") as resumed:
            resumed.load_state_dict(state)
            assert resumed.set_mixture({"code": 9, "web": 1}, once=True) == MixtureChange(
                made.step, made.target, again=True
            )
        with pytest.raises(loaderd.InvalidTicketError, match="the plan holds"):
            client.mix({"code": 1}, decided=1_000_000)
        with pytest.raises(loaderd.InvalidTicketError, match='no "dry_run"'):
            client.mix({"code": 1}, decided=1, dry_run=True)
        while loader.step <= other.step:  # the plan grows as steps are taken
            next(loader)
        assert client.mix()["target"] == {"code": 0.5, "web": 0.5}
