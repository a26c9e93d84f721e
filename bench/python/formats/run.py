"""Compares reading of every format that `loaderd import` reads with the original library: run.py --loaderd BIN
[--megabytes N] [--rounds N].

Both read the same files in the same run, alternately, to the end, from the page cache, and build each document. loaderd
runs `import --dry-run`, which also counts; the library runs in a loop that takes each document and its length. Prints a
table for bench/notes/stream.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np

END = 50256
VOCABULARY = "sha256:" + "0a" * 32
Read = Callable[[Path], Iterator[int]]
"""Reads a format's documents by the original library, and yields the length of each."""


def lengths(total: int, mean: int) -> list[int]:
    """Returns long-tailed lengths that add up to approximately a total."""
    drawn = np.random.default_rng(1).lognormal(np.log(mean) - 0.5, 1.0, total // mean).astype(int) + 1
    return drawn.tolist()


def texts(megabytes: int) -> list[str]:
    words = np.array(
        ["the", "of", "packing", "documents", "streams", "a", "rows", "in", "training", "and", "then", "loader"]
    )
    draw = np.random.default_rng(2)
    return [" ".join(words[draw.integers(0, len(words), max(1, n // 7))]) for n in lengths(megabytes << 20, 3000)]


def ids(megabytes: int) -> list[np.ndarray]:
    draw = np.random.default_rng(3)
    return [np.append(draw.integers(0, END, n, dtype=np.uint16), np.uint16(END)) for n in lengths(megabytes << 19, 800)]


def megatron(folder: Path, megabytes: int) -> Read:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(str(folder / "x.bin"), dtype=np.uint16)
    for document in ids(megabytes):
        builder.add_item(torch.from_numpy(document.astype(np.int32)))
        builder.end_document()
    builder.finalize(str(folder / "x.idx"))

    def read(at: Path) -> Iterator[int]:
        data = IndexedDataset(str(at / "x"))
        for i in range(len(data)):
            yield len(data[i])

    return read


def cut(flat: np.ndarray) -> Iterator[int]:
    ends = np.flatnonzero(flat == END) + 1
    for start, end in zip([0, *ends.tolist()], ends.tolist(), strict=False):
        yield len(np.array(flat[start:end]))


def npy(folder: Path, megabytes: int) -> Read:
    np.save(folder / "x.npy", np.concatenate(ids(megabytes)))
    return lambda at: cut(np.load(at / "x.npy", mmap_mode="r"))


def raw(folder: Path, megabytes: int, kind: type) -> Read:
    np.concatenate(ids(megabytes)).astype(kind).tofile(folder / "x.bin")
    return lambda at: cut(np.memmap(at / "x.bin", dtype=kind, mode="r"))


def llmc(folder: Path, megabytes: int) -> Read:
    """The format of llm.c: 256 numbers of 4 bytes (magic, version, tokens), then uint16."""
    flat = np.concatenate(ids(megabytes))
    header = np.zeros(256, dtype=np.int32)
    header[:3] = 20240520, 1, len(flat)
    (folder / "x.bin").write_bytes(header.tobytes() + flat.tobytes())
    return lambda at: cut(np.memmap(at / "x.bin", dtype=np.uint16, mode="r", offset=header.nbytes))


def mds_ids(folder: Path, megabytes: int) -> Read:
    from streaming import LocalDataset, MDSWriter

    with MDSWriter(out=str(folder), columns={"ids": "ndarray:uint16"}, exist_ok=True) as out:
        for document in ids(megabytes):
            out.write({"ids": document})

    def read(at: Path) -> Iterator[int]:
        data = LocalDataset(str(at))
        for i in range(len(data)):
            yield len(data[i]["ids"])

    return read


def saved_ids(folder: Path, megabytes: int) -> Read:
    from datasets import Dataset, load_from_disk

    Dataset.from_dict({"ids": [document.astype(np.int32) for document in ids(megabytes)]}).save_to_disk(folder)
    return lambda at: (len(row["ids"]) for row in load_from_disk(at).with_format("numpy"))


def tar_ids(folder: Path, megabytes: int) -> Read:
    from webdataset import TarWriter, WebDataset

    with TarWriter(str(folder / "x.tar")) as out:
        for i, document in enumerate(ids(megabytes)):
            out.write({"__key__": f"{i:08}", "npy": document})
    return lambda at: (
        len(sample["npy"]) for sample in WebDataset(str(at / "x.tar"), shardshuffle=False, empty_check=False).decode()
    )


def table(folder: Path, megabytes: int) -> Read:
    with (folder / "x.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["text"])
        out.writerows([text] for text in texts(megabytes))

    def read(at: Path) -> Iterator[int]:
        with (at / "x.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                yield len(row["text"])

    return read


def arrow(folder: Path, megabytes: int) -> Read:
    import pyarrow as pa

    data = pa.table({"text": texts(megabytes)})
    with pa.OSFile(str(folder / "x.arrow"), "wb") as file, pa.ipc.new_file(file, data.schema) as out:
        out.write_table(data, max_chunksize=2000)

    def read(at: Path) -> Iterator[int]:
        with pa.memory_map(str(at / "x.arrow")) as file, pa.ipc.open_file(file) as batches:
            for i in range(batches.num_record_batches):
                for text in batches.get_batch(i).column(0).to_pylist():
                    yield len(text)

    return read


def mds(folder: Path, megabytes: int, compression: str | None = None) -> Read:
    from streaming import LocalDataset, MDSWriter, StreamingDataset

    with MDSWriter(out=str(folder), columns={"text": "str"}, compression=compression, exist_ok=True) as out:
        for text in texts(megabytes):
            out.write({"text": text})

    def read(at: Path) -> Iterator[int]:
        if compression is None:
            data = LocalDataset(str(at))
            for i in range(len(data)):
                yield len(data[i]["text"])
            return
        with tempfile.TemporaryDirectory() as cache:
            for sample in StreamingDataset(remote=str(at), local=f"{cache}/x", batch_size=1, shuffle=False):
                yield len(sample["text"])

    return read


def saved(folder: Path, megabytes: int) -> Read:
    from datasets import Dataset, load_from_disk

    Dataset.from_dict({"text": texts(megabytes)}).save_to_disk(folder)
    return lambda at: (len(row["text"]) for row in load_from_disk(at))


def wet(folder: Path, megabytes: int) -> Read:
    from warcio.archiveiterator import ArchiveIterator
    from warcio.warcwriter import WARCWriter

    with (folder / "x.warc.wet.gz").open("wb") as file:
        out = WARCWriter(file, gzip=True)
        for i, text in enumerate(texts(megabytes)):
            out.write_record(
                out.create_warc_record(
                    f"http://example.org/{i}",
                    "conversion",
                    payload=BytesIO(text.encode()),
                    warc_content_type="text/plain",
                )
            )

    def read(at: Path) -> Iterator[int]:
        with (at / "x.warc.wet.gz").open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type == "conversion":
                    yield len(record.content_stream().read().decode())

    return read


def tar(folder: Path, megabytes: int) -> Read:
    from webdataset import TarWriter, WebDataset

    with TarWriter(str(folder / "x.tar")) as out:
        for i, text in enumerate(texts(megabytes)):
            out.write({"__key__": f"{i:08}", "txt": text})
    return lambda at: (
        len(sample["txt"]) for sample in WebDataset(str(at / "x.tar"), shardshuffle=False, empty_check=False).decode()
    )


def jsonl(folder: Path, megabytes: int) -> Read:
    with (folder / "x.jsonl").open("w") as file:
        for text in texts(megabytes):
            file.write(json.dumps({"text": text}) + "\n")

    def read(at: Path) -> Iterator[int]:
        with (at / "x.jsonl").open() as file:
            for line in file:
                yield len(json.loads(line)["text"])

    return read


def parquet(folder: Path, megabytes: int) -> Read:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": texts(megabytes)}), folder / "x.parquet", row_group_size=2000)

    def read(at: Path) -> Iterator[int]:
        with pq.ParquetFile(at / "x.parquet") as file:
            for batch in file.iter_batches(columns=["text"]):
                for text in batch.column(0).to_pylist():
                    yield len(text)

    return read


SHARDS = ["zstd", "gz", "bz2", "br", "snappy"]
TOKENS = ["--tokenizer-fingerprint", VOCABULARY, "--end-token", str(END)]
CASES: dict[str, tuple[str, Callable[[Path, int], Read], list[str]]] = {
    "Megatron, uint16": ("megatron-core", megatron, TOKENS),
    "NumPy, uint16": ("numpy", npy, TOKENS),
    "ids alone, uint16": ("numpy", lambda f, n: raw(f, n, np.uint16), [*TOKENS, "--token-type", "uint16"]),
    "ids alone, uint32": ("numpy", lambda f, n: raw(f, n, np.uint32), [*TOKENS, "--token-type", "uint32"]),
    "llm.c": ("numpy", llmc, TOKENS),
    "MDS": ("mosaicml-streaming", mds, []),
    **{f"MDS, {name}": ("mosaicml-streaming", partial(mds, compression=name), []) for name in SHARDS},
    "MDS, token ids": ("mosaicml-streaming", mds_ids, TOKENS[:2]),
    "Hugging Face, on disk": ("datasets", saved, []),
    "Hugging Face, token ids": ("datasets", saved_ids, TOKENS[:2]),
    "WET, gzip": ("warcio", wet, []),
    "tar of texts": ("webdataset", tar, []),
    "tar of token ids": ("webdataset", tar_ids, TOKENS[:2]),
    "JSON lines": ("json", jsonl, []),
    "CSV": ("csv", table, []),
    "Parquet, snappy": ("pyarrow", parquet, []),
    "Arrow IPC": ("pyarrow", arrow, []),
}


def best(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loaderd", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("cases", nargs="*")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{platform.machine()}, {asked.megabytes} MiB of documents, median of {asked.rounds}\n")
    print("| format | documents | MB on disk | loaderd: MB/s | documents/s | library | MB/s | documents/s | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (library, make, flags) in CASES.items():
        if asked.cases and name not in asked.cases:
            continue
        folder = Path(tempfile.mkdtemp())
        try:
            read = make(folder, asked.megabytes)
            size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6
            ours, theirs, counts = [], [], set()
            for _ in range(asked.rounds):
                began = time.perf_counter()
                done = subprocess.run(
                    [asked.loaderd, "import", "--dry-run", "--json", *flags, folder], check=True, capture_output=True
                )
                ours.append(time.perf_counter() - began)
                counts.add(json.loads(done.stdout)["documents"])
                began = time.perf_counter()
                counts.add(sum(1 for _ in read(folder)))
                theirs.append(time.perf_counter() - began)
            (documents,) = counts
            a, b = best(ours), best(theirs)
            print(
                f"| {name} | {documents:,} | {size:.0f} | {size / a:,.0f} | {documents / a:,.0f} | {library} | "
                f"{size / b:,.0f} | {documents / b:,.0f} | {b / a:.1f} |",
                flush=True,
            )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
