"""`loaderd import` of files that the original libraries wrote: every document once, in order, as those libraries had
it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nats
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from environments import site_packages
from loaderd import Client
from object_store import object_store
from scale import everything
from tokenized import SETTINGS

HERE = Path(__file__).resolve().parent


def made(folder: Path, *which: str, libraries: bool = False) -> dict[str, Any]:
    """Writes files in a separate process, because the libraries and the test's own are incompatible."""
    subprocess.run(
        [sys.executable, HERE / "files_of_others.py", folder, *which], check=True, env=environment(folder, libraries)
    )
    return json.loads((folder / "expected.json").read_text())


def made_by_libraries(program: str, folder: Path, *arguments: str) -> Any:
    """Returns the JSON output of a program that uses the libraries."""
    done = subprocess.run(
        [sys.executable, HERE / program, folder, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        env=environment(folder.parent, True),
    )
    return json.loads(done.stdout)


def environment(folder: Path, libraries: bool) -> dict[str, str]:
    paths = [site for site in sys.path if site.endswith("site-packages")]
    if libraries:
        paths.append(str(site_packages("formats")))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HOME": str(folder / "cache"),
    }


def imported(loaderd: Path, folder: Path | str, case: dict[str, Any], *flags: str) -> dict[str, Any]:
    """Returns the command's output for a case."""
    command = [
        loaderd,
        "import",
        "--json",
        *flags,
        *case.get("flags", []),
        *(["--tokenizer", "gpt2"] if case.get("tokens") else []),
    ]
    paths = [folder / p if isinstance(folder, Path) else f"{folder}/{p}" for p in case["paths"]]
    done = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def stored(url: str, first: int, n: int) -> list[Any]:
    """Returns messages of the document stream, starting at a sequence."""
    nc = await nats.connect(url)
    try:
        return [await nc.jetstream().get_msg("DOCS", first + i, direct=True) for i in range(n)]
    finally:
        await nc.close()


def check(loaderd: Path, d: Any, folder: Path | str, cases: dict[str, Any]) -> None:
    """Checks each case: the output of --dry-run, the content of the stream, and that a second import adds nothing."""
    last = 0
    for name, case in cases.items():
        wanted = case["documents"]
        said = imported(loaderd, folder, case, "--dry-run")
        lengths = [len(x) if case.get("tokens") else len(x.encode()) for x in wanted]
        assert (said["documents"], said["tokens"] or said["bytes"]) == (len(wanted), sum(lengths)), (name, said)
        # the formats of objects are detected when they are read
        formats = {case["format"]} if isinstance(folder, Path) else {case["format"], "auto"}
        assert {f["format"] for f in said["formats"]} <= formats and said["complete"] and not said["problems"], (
            name,
            said,
        )
        assert (said["lengths"]["shortest"], said["lengths"]["longest"]) == (min(lengths), max(lengths)), name
        assert (
            said["first"]["text"] == wanted[0][:400]
            if "text" in said["first"]
            else said["first"]["ids"] == wanted[0][:32]
        ), name
        left = {k: v["count"] for k, v in said["left_out"].items() if k != "empty"}
        assert left == case.get("left_out", {}), (name, left)
        flags = [
            "--daemon",
            d.nats_url,
            "--source",
            name.replace(".", "-"),
            *(["--meta", ",".join(case["meta"])] if "meta" in case else []),
        ]
        summary = imported(loaderd, folder, case, *flags)
        assert (summary["documents"], summary["inputs"]) == (len(wanted), summary["inputs_complete"]), (name, summary)
        messages = asyncio.run(stored(d.operator_url, last + 1, len(wanted)))
        found = [np.frombuffer(m.data, "<i4").tolist() if case.get("tokens") else m.data.decode() for m in messages]
        assert found == wanted, name
        keys = {m.partition(":")[0].partition("=")[0] for m in case.get("meta", [])}
        assert keys == {k for m in messages for k in json.loads((m.headers or {}).get("Loaderd-Meta", "{}"))}, name
        last += len(wanted)
        again = imported(loaderd, folder, case, *flags)
        assert (again["documents"], again["already"]) == (0, len(wanted)), (name, again)


def test_files_of_numpy_and_datasets(daemon, loaderd, tmp_path):
    cases = made(tmp_path, "token_files", "saved")
    check(loaderd, daemon(), tmp_path, {name: cases[name] for name in ("flat_big_i8.npy", "llmc.bin", "parts")})


def test_values_of_documents_come_along(daemon, loaderd, tmp_path):
    made(tmp_path, "saved")
    d = daemon(
        {
            **SETTINGS,
            "tokenizer.name": "gpt2",
            "tokenizer.fingerprint": "",
            "tokenizer.vocab_size": 0,
            "tokenizer.end": "auto",
            "packing.buckets": 4096,
            "documents.meta.language": "string",
            "documents.meta.stars": "int64",
        }
    )
    case = {"paths": ["saved"]}
    imported(loaderd, tmp_path, case, "--daemon", d.nats_url, "--meta", "language=lang,stars")
    said = imported(loaderd, tmp_path, case, "--daemon", d.nats_url, "--source", "again", "--meta", "stars:int64")
    assert said["documents"] == 44
    found = []
    with Client(d.flight_url, documents=True, columns=["language", "stars"]) as client:
        client.seal()
        for step in client:
            found += [
                x
                for row in zip(step.values("language"), step.values("stars"), strict=True)
                for x in zip(*row, strict=True)
            ]
    rows = [(["en", "de", None][i % 3], i) for i in range(45) if i != 3]
    assert set(found) == {*rows, *((None, i) for _, i in rows)} and d.metric("loaderd_undecodable_documents_total") == 0


@everything
def test_files_of_the_original_libraries(daemon, loaderd, tmp_path):
    check(loaderd, daemon(), tmp_path, made(tmp_path, libraries=True))


@everything
def test_objects_of_the_original_libraries(daemon, loaderd, tmp_path, monkeypatch):
    cases = made(tmp_path, "megatron", "mds", "archive", libraries=True)
    with object_store(tmp_path) as store:
        for variable, value in store.variables.items():
            monkeypatch.setenv(variable, value)
        check(loaderd, daemon(), "s3://bucket", cases)


def test_columns_of_a_parquet_object(loaderd, tmp_path, monkeypatch):
    texts = [f"row {i} {'text ' * (i % 50)}" for i in range(2000)]
    images = np.random.default_rng(1).bytes(2000 * 4096)
    table = pa.table(
        {
            "id": range(2000),
            "image": [images[4096 * i : 4096 * (i + 1)] for i in range(2000)],
            "text": texts,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    with object_store(tmp_path) as store:
        for variable, value in store.variables.items():
            monkeypatch.setenv(variable, value)
        found = imported(loaderd, "s3://bucket", {"paths": ["a.parquet"]}, "--dry-run")
    assert (found["documents"], found["bytes"]) == (2000, sum(map(len, texts)))
    assert store.requested["a.parquet"] < 600_000 < (tmp_path / "a.parquet").stat().st_size / 10
