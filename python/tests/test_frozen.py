"""Steps that `loaderd run export` wrote, read without a daemon: byte for byte what a client of the daemon got."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from loaderd import Client, Sources, Step, publish
from loaderd.errors import LoaderdError, ProtocolError
from loaderd.frozen import Frozen
from loaderd.torch._batch import FIELDS, SOURCE_FIELDS, BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from scale import everything, thinned
from test_columns import NAMES, SETUP, made, send
from test_import import made_by_libraries
from test_sources import MIXED
from tokenized import SETTINGS, TOKENIZER, documents, publish_tokens

FORMATS = ["arrow", "parquet", "npy", "mds"]
REQUESTED: dict[str, Any] = {"documents": True, "weights": True, "columns": NAMES}


@pytest.fixture(scope="module")
def sealed(module_daemon):
    """A run of rows of two lengths, with columns and values of documents, whose last step is planned."""
    d = module_daemon(SETUP)
    send(d, made(900, 160))
    with Client(d.flight_url) as client:
        client.seal()
        assert len(list(client)) > 25
    return d


def export(loaderd: Path, d: Any, out: Path, kind: str, *flags: str) -> dict[str, Any]:
    process = export_process(loaderd, d, out, kind, *flags)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    return json.loads(stdout)


def export_process(loaderd: Path, d: Any, out: Path, kind: str, *flags: str) -> subprocess.Popen[str]:
    command = [
        loaderd,
        "run",
        "export",
        "--daemon",
        d.flight_url,
        "--format",
        kind,
        "--out",
        out,
        "--file-steps",
        "7",
        "--json",
        *flags,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def public(step: Step) -> dict[str, Any]:
    """Returns the values of every public attribute of a step, of every public method for each of its arguments, and
    of the batches in a training loop."""
    found: dict[str, Any] = {"labels shifted": step.labels("shifted")}
    found |= {f"column {name}": step.column(name) for name in step.parts[0].columns}
    found |= {f"values {name}": step.values(name) for name in step.parts[0].values}
    for name in dir(Step):
        if name.startswith("_") or name in ("parts", "column", "values"):  # parts reflect how the rows were sent
            continue
        value = getattr(step, name)
        try:
            value = value() if callable(value) else value
        except ValueError as error:  # the reader does not request the column
            value = str(error)
        found |= (
            {f"sources {f.name}": getattr(value, f.name) for f in fields(value)}
            if isinstance(value, Sources)
            else {name: value}
        )
    weights = () if step.sources is None or step.sources.weight is None else ("loss_weights",)
    for labels in ("unshifted", "shifted"):
        form = BatchFormat.checked([*FIELDS, *SOURCE_FIELDS, *weights], torch.int64, labels, None)
        found |= {f"batch {labels} {name}": value for name, value in make_batch(step, form, Buffers()).items()}
    return found


def same(want: Mapping[str, Any], got: Mapping[str, Any]) -> None:
    """Equal names, types, shapes and values."""
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert type(got[name]) is type(value), name
        several = isinstance(value, list) and name == "cu_seqlens"
        for x, y in zip(got[name] if several else [got[name]], value if several else [value], strict=True):
            if isinstance(y, np.ndarray | torch.Tensor):
                assert (x.dtype, x.shape) == (y.dtype, y.shape), name
                assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), name
            else:
                assert x == y, name


@pytest.mark.parametrize("kind", FORMATS)
def test_equals_the_clients_steps(sealed, loaderd, tmp_path, kind):
    m = export(loaderd, sealed, tmp_path / "x", kind)
    assert m["complete"] and m["first"] == 0 and len(m["parts"]) > 3
    for world, asked in ((1, REQUESTED), (2, {}), (4, REQUESTED)):
        for rank in thinned(range(world), 3):
            with Client(sealed.flight_url, rank=rank, world_size=world, **asked) as client:
                steps = list(client)
            frozen = Frozen(tmp_path / "x", rank=rank, world_size=world, check=True, **asked)
            found = list(frozen)
            assert len(found) == len(steps) == m["end"] and {s.bucket for s in found} == {64, 128}
            for a, b in zip(steps, found, strict=True):
                same(public(a), public(b))


def test_goes_on_at_every_step(sealed, loaderd, tmp_path):
    m = export(loaderd, sealed, tmp_path / "x", "arrow", "--steps", "3:20")
    assert (m["first"], m["end"], [p["steps"] for p in m["parts"]]) == (3, 20, [7, 7, 3])
    indices = list(range(3, 20))
    for at in range(3, 21):
        assert [s.index for s in Frozen(tmp_path / "x", step=at)] == indices[at - 3 :]
        other = Frozen(tmp_path / "x")
        other.load_state_dict({"run": "", "fingerprint": m["fingerprint"], "step": at})
        assert other.state_dict()["step"] == at and [s.index for s in other] == indices[at - 3 :]
    assert [s.index for s in Frozen(tmp_path / "x", step=5, steps=4)] == [5, 6, 7, 8]
    for step in (2, 21):
        with pytest.raises(ValueError, match="has steps 3 to 19"):
            Frozen(tmp_path / "x", step=step)
    with pytest.raises(ValueError, match="belongs to the plan"):
        Frozen(tmp_path / "x").load_state_dict({"fingerprint": "other", "step": 3})
    with pytest.raises(ValueError, match="no column other"):
        Frozen(tmp_path / "x", columns=["other"])
    with pytest.raises(LoaderdError, match=r"cannot divide .* among 3 ranks"):
        next(Frozen(tmp_path / "x", world_size=3))


def test_an_export_goes_on_and_is_checked(sealed, loaderd, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "x"
    wanted = export(loaderd, sealed, whole, "parquet", "--steps", "0:24")
    first = export(loaderd, sealed, folder, "parquet", "--steps", "0:10")
    kept = (folder / "part-00000000.parquet").stat().st_mtime_ns
    (folder / "part-00000099.parquet.unfinished").write_bytes(b"of one that was killed")
    more = export(loaderd, sealed, folder, "parquet", "--steps", "0:24")
    assert [p["steps"] for p in first["parts"]] == [7, 3] and more["parts"] == wanted["parts"]
    assert (folder / "part-00000000.parquet").stat().st_mtime_ns == kept and not list(folder.glob("*.unfinished"))
    assert export(loaderd, sealed, folder, "parquet", "--steps", "0:24") == more

    def refused(*flags: str) -> str:
        done = subprocess.run(
            [loaderd, "run", "export", "--daemon", sealed.flight_url, "--out", folder, *flags],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode != 0
        return done.stderr

    assert "another format: parquet, not arrow" in refused("--format", "arrow", "--file-steps", "7", "--steps", "0:24")
    assert "another steps in a file" in refused("--format", "parquet", "--steps", "0:24")
    assert "another columns" in refused(
        "--format", "parquet", "--file-steps", "7", "--steps", "0:24", "--columns", "input_ids"
    )
    assert "another first step" in refused("--format", "parquet", "--file-steps", "7", "--steps", "1:24")
    damaged = folder / "part-00000007.parquet"
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    assert "part-00000007.parquet has changed" in refused("--format", "parquet", "--file-steps", "7", "--steps", "0:30")
    with pytest.raises(LoaderdError, match=r"part-00000007.parquet has changed"):
        Frozen(folder, check=True)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"run_id": "another"}))
    assert "another run with the id" in refused("--format", "parquet", "--file-steps", "7", "--steps", "0:24")
    (folder / "manifest.json").unlink()
    assert "holds no export" in refused("--format", "parquet")


@pytest.mark.parametrize("kind", ["arrow", "npy", "mds"])  # formats whose values are not compressed
def test_Frozen_RefusesIDsOutsideTheVocabulary(sealed, loaderd, tmp_path, kind):
    folder = tmp_path / "x"
    config = export(loaderd, sealed, folder, kind, "--steps", "0:7")["config"]["tokenizer"]
    size = max(config["vocab_size"], config["pad"] + 1)
    found = next(Frozen(folder)).input_ids
    index, length = found.size // 2, len(found.tobytes()) // found.size
    file = next(f for f in [folder / f"part-00000000.{kind}", folder / "part-00000000" / "input_ids.npy"] if f.exists())
    data = file.read_bytes()
    at = data.index(found.ravel()[index : index + 8].tobytes())
    file.write_bytes(data[:at] + size.to_bytes(length, "little") + data[at + length :])
    with pytest.raises(
        ProtocolError,
        match=rf"step 0 of run .* has 1 token ids outside the vocabulary of {size:,} ids; the first is {size}",
    ):
        next(Frozen(folder))


def test_other_programs_read_the_files(sealed, loaderd, tmp_path):
    with Client(sealed.flight_url, columns=["lang"]) as client:
        steps = [next(client) for _ in range(7)]
    ids = [row for s in steps for row in s.input_ids.tolist()]
    langs = [row for s in steps for row in s.values("lang")]
    for kind in ("parquet", "arrow", "npy"):
        export(loaderd, sealed, tmp_path / kind, kind, "--steps", "0:7")
    tables = [
        pq.read_table(tmp_path / "parquet" / "part-00000000.parquet"),
        pa.ipc.open_file(tmp_path / "arrow" / "part-00000000.arrow").read_all(),
    ]
    for table in tables:
        table.validate(full=True)
        assert table["input_ids"].to_pylist() == ids and table["lang"].to_pylist() == langs
        assert (
            table["step"].to_pylist() == [s.index for s in steps for _ in range(s.rows)]
            and table["row"].to_pylist() == list(range(8)) * 7
        )
        assert table["bucket"].to_pylist() == [s.bucket for s in steps for _ in range(s.rows)]
    assert tables[0].schema.types == tables[1].cast(tables[0].schema).schema.types and tables[0].equals(
        tables[1].cast(tables[0].schema)
    )
    where = tmp_path / "npy" / "part-00000000"
    flat, offsets = np.load(where / "input_ids.npy", mmap_mode="r"), np.load(where / "input_ids.offsets.npy")
    assert [flat[a:b].tolist() for a, b in itertools.pairwise(offsets)] == ids


def test_goes_on_after_a_kill(sealed, loaderd, tmp_path):
    wanted = export(loaderd, sealed, tmp_path / "whole", "npy", "--steps", "0:25", "--file-steps", "1")
    command = [
        loaderd,
        "run",
        "export",
        "--daemon",
        sealed.flight_url,
        "--format",
        "npy",
        "--out",
        tmp_path / "x",
        "--file-steps",
        "1",
        "--steps",
        "0:25",
    ]
    for _ in range(3):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert process.stderr is not None and process.stderr.readline()  # of the first part that it finishes
        process.kill()
        process.communicate()
    assert export(loaderd, sealed, tmp_path / "x", "npy", "--steps", "0:25", "--file-steps", "1") == wanted


def test_sources_of_a_mixture(daemon, loaderd, tmp_path):
    d = daemon(MIXED)
    publish_tokens(d.nats_url, [t // 2 for t in documents(600, 1)], "code")
    publish_tokens(d.nats_url, [500 + t // 2 for t in documents(900, 2)], "web")
    export(loaderd, d, tmp_path / "x", "parquet", "--steps", "0:12")
    for world, sources in ((1, True), (4, None), (2, False)):
        for rank in range(world):
            with Client(d.flight_url, rank=rank, world_size=world, sources=sources, steps=12) as client:
                for a, b in zip(
                    client, Frozen(tmp_path / "x", rank=rank, world_size=world, sources=sources), strict=True
                ):
                    same(public(a), public(b))


def spoken(n: int, seed: int) -> list[dict[str, Any]]:
    """Returns documents of which some have prompts without a loss, weights and values. The last third has a loss
    everywhere, and no weight."""
    rng = np.random.default_rng(seed)
    made: list[dict[str, Any]] = [{"ids": ids} for ids in documents(n, seed)]
    for i, document in enumerate(made[: 2 * n // 3]):
        if i % 3:
            document["loss"] = (np.arange(len(document["ids"])) >= rng.integers(0, len(document["ids"]) + 1)).tolist()
        document["weight"] = float(rng.choice([0.25, 1, 2]))
        document["meta"] = {"lang": "de"} if i % 2 else {}
    return made


LOSSES = {
    "documents": {},
    "rows": {"attention": "row"},
    "one bucket": {"packing.buckets": 64, "packing.method": "bfd"},
    "sources": {k: v for k, v in MIXED.items() if k not in SETTINGS},
    "sources, one with rows": {
        "sources.code.weight": 1,
        "sources.web.weight": 2,
        "sources.code.packing.method": "concat",
        "sources.code.packing.buckets": 128,
        "sources.code.attention": "row",
    },
}


@pytest.mark.parametrize("name", LOSSES)
def test_Frozen_HasEveryAttributeOfTheClientsSteps(daemon, loaderd, tmp_path, name):
    d = daemon(
        SETTINGS
        | {"documents.meta.lang": "string", "steps.rows": 4, "packing.holdback": 0}
        | LOSSES[name]
        | {"packing.pool": 16, "shuffle.window": 4}
    )
    mixed = any(key.startswith("sources.") for key in LOSSES[name])
    for seed, source in enumerate(("code", "web")):
        publish(spoken(60, seed), d.nats_url, source=source, tokenizer=TOKENIZER)
    asked: list[dict[str, Any]] = [{}, {"documents": True, "weights": True, "sources": mixed, "columns": ["lang"]}]
    with Client(d.flight_url) as client:
        client.seal()
        assert {(s.masked, s.weighted) for s in client} >= {(True, True), (False, False)}
    for kind in FORMATS:
        export(loaderd, d, tmp_path / kind, kind)
    for world, rank in thinned([(1, 0), (2, 0), (2, 1)], 2):
        for arguments in asked:
            with Client(d.flight_url, rank=rank, world_size=world, **arguments) as client:
                wanted = [public(step) for step in client]
            for kind in FORMATS:
                for want, step in zip(
                    wanted, Frozen(tmp_path / kind, rank=rank, world_size=world, **arguments), strict=True
                ):
                    same(want, public(step))
    export(loaderd, d, tmp_path / "ids", "arrow", "--columns", "input_ids,cu_seqlens")
    with pytest.raises(LoaderdError, match=r"has tokens without a loss, and the export in .* has no column loss_runs"):
        list(Frozen(tmp_path / "ids"))


def test_rows_of_one_length_are_matrices(daemon, loaderd, tmp_path):
    d = daemon(SETUP | {"packing.buckets": 64})
    send(d, made(300, 100))
    with Client(d.flight_url, **REQUESTED) as client:
        client.seal()
        steps = list(client)
    export(loaderd, d, tmp_path / "npy", "npy", "--file-steps", "1000")
    d.stop()
    ids = np.load(tmp_path / "npy" / "part-00000000" / "input_ids.npy", mmap_mode="r")
    assert ids.tolist() == [row for s in steps for row in s.input_ids.tolist()]
    for a, b in zip(steps, Frozen(tmp_path / "npy", **REQUESTED), strict=True):
        same(public(a), public(b))


def test_Export_AcrossAChangeOfTheRowLengths(daemon, loaderd, tmp_path):
    """Exports that begin before a control changes the row lengths have all steps. Their files are those of an export
    that begins after it: matrices, except for the part with rows of both lengths."""
    d = daemon(SETUP | {"packing.buckets": 64})
    send(d, made(300, 100))
    flags = ("--file-steps", "3", "--steps", "0:60")
    begun = [export_process(loaderd, d, tmp_path / kind, kind, *flags) for kind in FORMATS]
    for process in begun:
        assert process.stderr is not None and process.stderr.readline()  # of the first part
    with Client(d.flight_url) as client:
        step = client.schedule([{"rows": 8, "buckets": [32]}], dry_run=True)["step"]
        changed = step - step % 3 + 4  # within a part
        client.schedule([{"from_step": changed, "rows": 8, "buckets": [32]}])
    send(d, made(600, 100))
    manifests = {}
    for kind, process in zip(FORMATS, begun, strict=True):
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        manifests[kind] = json.loads(out)
    with Client(d.flight_url, steps=60, **REQUESTED) as client:
        wanted = list(client)
    assert [s.bucket for s in wanted] == [64] * changed + [32] * (60 - changed)
    for kind in FORMATS:
        for a, b in zip(wanted, Frozen(tmp_path / kind, **REQUESTED), strict=True):
            same(public(a), public(b))
        assert export(loaderd, d, tmp_path / f"{kind} again", kind, *flags) == manifests[kind]
    for first in range(0, 60, 3):
        ids = np.load(tmp_path / "npy" / f"part-{first:08d}" / "input_ids.npy", mmap_mode="r")
        assert ids.shape == ((64 * 8 + 32 * 16,) if first == changed - 1 else (24, 64 if first < changed else 32))
    offsets = np.load(tmp_path / "npy" / f"part-{changed - 1:08d}" / "input_ids.offsets.npy")
    assert np.diff(offsets).tolist() == [64] * 8 + [32] * 16


@everything
def test_mosaicml_reads_the_shards(sealed, loaderd, tmp_path):
    export(loaderd, sealed, tmp_path / "mds", "mds", "--steps", "0:20")
    with Client(sealed.flight_url, steps=20, columns=["lang", "half"]) as client:
        steps = list(client)
    found = made_by_libraries("read_shards.py", tmp_path / "mds", "input_ids", "lang", "half", "step")
    rows = [
        (i, v, h, s.index)
        for s in steps
        for i, v, h in zip(s.input_ids.tolist(), s.values("lang"), s.column("half").tolist(), strict=True)
    ]
    assert [tuple(x) for x in found] == rows
