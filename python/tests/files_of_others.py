"""Writes files by the libraries whose formats `loaderd import` reads: python files_of_others.py FOLDER.
expected.json maps the name of a case to the arguments of `loaderd import` and the expected documents: texts, or
lists of ids."""

from __future__ import annotations

import json
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

TEXTS = ["one", "zwei\nZeilen", "三", "", "x" * 5000, *(f"document {i}" for i in range(40))]
END = 50256


def documents(dtype: Any, n: int = 50, seed: int = 1) -> list[list[int]]:
    """Returns lists of ids that are valid for the type and GPT-2's vocabulary, without END."""
    draw = np.random.default_rng(seed)
    most = min(np.iinfo(dtype).max, END - 1)
    return [draw.integers(0, most, length).tolist() for length in draw.integers(1, 300, n)]


def megatron(folder: Path, cases: dict[str, Any]) -> None:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    for dtype in (np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64):
        name = f"megatron_{np.dtype(dtype).name}"
        builder = IndexedDatasetBuilder(str(folder / f"{name}.bin"), dtype=dtype)
        found = documents(dtype)
        for i, ids in enumerate(found):
            cut = len(ids) // 3 if i % 2 else 0  # every second document is two sequences
            if i % 5 == 0:
                builder.add_document(torch.tensor(ids), [cut, len(ids) - cut] if cut else [len(ids)])
                continue
            for part in (ids[:cut], ids[cut:]) if cut else (ids,):
                builder.add_item(torch.tensor(part))
            builder.end_document()
        builder.finalize(str(folder / f"{name}.idx"))
        cases[name] = {"paths": [name], "tokens": True, "documents": found, "format": "megatron"}


def mds(folder: Path, cases: dict[str, Any]) -> None:
    from streaming import MDSWriter

    for compression in (None, "zstd:3", "gz", "bz2", "br:2", "snappy"):
        name = f"mds_{(compression or 'raw').partition(':')[0]}"
        columns = {
            "text": "str",
            "n": "int",
            "id": "str_int",
            "raw": "bytes",
            "seen": "json",
            "score": "float32",
            "half": "float16",
            "image": "uint8",
        }
        with MDSWriter(
            out=str(folder / name), columns=columns, compression=compression, size_limit=4096, hashes=["sha1"]
        ) as out:
            for i, text in enumerate(TEXTS):
                out.write(
                    {
                        "text": text,
                        "n": i,
                        "id": i * 10**20,
                        "raw": bytes([i]),
                        "seen": {"at": [i]},
                        "score": i / 4,
                        "half": i / 2,
                        "image": i,
                    }
                )
        cases[name] = {
            "paths": [name],
            "documents": [t for t in TEXTS if t],
            "format": "mds",
            "meta": ["n", "sid=id:string", "score", "half", "image"],
        }
        if name in ("mds_raw", "mds_zstd", "mds_gz", "mds_bz2"):  # other formats do not show their compression
            without_index(folder, cases, name)
    for encoding, flags in (
        ("ndarray", []),
        ("ndarray:uint16", []),
        ("ndarray:int32", []),
        ("ndarray:int64", []),
        ("bytes", ["--token-type", "int64"]),
        ("json", []),
    ):
        name = f"mds_{encoding.replace(':', '_')}"
        found = documents(np.int32)
        with MDSWriter(out=str(folder / name), columns={"tokens": encoding}, size_limit=20_000) as out:
            for ids in found:
                array = np.array(ids, dtype=encoding.partition(":")[2] or np.int64)
                out.write({"tokens": ids if encoding == "json" else array.tobytes() if encoding == "bytes" else array})
        cases[name] = {
            "paths": [name],
            "tokens": True,
            "documents": found,
            "format": "mds",
            "flags": ["--text-column", "tokens", *flags],
        }
        without_index(folder, cases, name)


def without_index(folder: Path, cases: dict[str, Any], name: str) -> None:
    """Copies only the shards of a case, as a copy by a pattern such as *.mds* does."""
    alone = f"{name}_without_index"
    shutil.copytree(folder / name, folder / alone, ignore=shutil.ignore_patterns("index.json"))
    cases[alone] = cases[name] | {"paths": [alone]}


def saved(folder: Path, cases: dict[str, Any]) -> None:
    from datasets import Dataset, DatasetDict

    texts = Dataset.from_dict({"text": TEXTS, "lang": ["en", "de", None] * 15, "stars": list(range(45))})
    texts.save_to_disk(folder / "saved", num_shards=12)  # with more than ten shards, names do not sort as their numbers
    filled = [t for t in TEXTS if t]
    cases["saved"] = {"paths": ["saved"], "documents": filled, "format": "arrow", "meta": ["lang", "stars"]}
    texts.shuffle(seed=3).select(range(20)).save_to_disk(folder / "selected")
    cases["selected"] = {
        "paths": ["selected"],
        "documents": [t for t in texts.shuffle(seed=3).select(range(20))["text"] if t],
        "format": "arrow",
    }
    DatasetDict({"train": texts, "test": texts.select(range(5, 10))}).save_to_disk(folder / "parts")
    cases["parts"] = {"paths": ["parts"], "documents": TEXTS[5:10], "format": "arrow", "flags": ["--split", "test"]}
    found = documents(np.int32)
    Dataset.from_dict({"input_ids": found}).save_to_disk(folder / "saved_ids")
    cases["saved_ids"] = {
        "paths": ["saved_ids"],
        "tokens": True,
        "documents": found,
        "format": "arrow",
        "flags": ["--text-column", "input_ids"],
    }


def token_files(folder: Path, cases: dict[str, Any]) -> None:
    found = [[*ids, END] for ids in documents(np.uint16)]
    flat = [i for ids in found for i in ids]
    for dtype in ("<u2", ">u2", "<u4", "<i4", "<i8", ">i8", "<u8"):
        name = f"flat{dtype.replace('<', '_').replace('>', '_big_')}.npy"
        np.save(folder / name, np.array(flat, dtype=dtype))
        cases[name] = {"paths": [name], "tokens": True, "documents": found, "format": "tokens"}
    rows = np.random.default_rng(2).integers(0, END, (20, 33), dtype=np.uint16)
    np.save(folder / "rows.npy", rows)
    cases["rows.npy"] = {"paths": ["rows.npy"], "tokens": True, "documents": rows.tolist(), "format": "tokens"}
    np.array(flat, dtype=np.uint16).tofile(folder / "raw.npy")  # as OLMo-core: a memory map without a header
    cases["raw.npy"] = {
        "paths": ["raw.npy"],
        "tokens": True,
        "documents": found,
        "format": "tokens",
        "flags": ["--token-type", "uint16"],
    }
    begun = [[END, *ids[:-1]] for ids in found]
    flat = [i for ids in begun for i in ids]
    header = np.zeros(256, dtype=np.int32)  # as llm.c, nanoGPT's speedruns
    header[:3] = 20240520, 1, len(flat)
    (folder / "llmc.bin").write_bytes(header.tobytes() + np.array(flat, dtype=np.uint16).tobytes())
    cases["llmc.bin"] = {
        "paths": ["llmc.bin"],
        "tokens": True,
        "documents": begun,
        "format": "tokens",
        "flags": ["--begin-token", str(END)],
    }


def archive(folder: Path, cases: dict[str, Any]) -> None:
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    found = []
    with (folder / "crawl.warc.gz").open("wb") as file:
        out = WARCWriter(file, gzip=True)
        out.write_record(out.create_warcinfo_record("crawl.warc.gz", {"software": "a test"}))
        for i, text in enumerate(TEXTS):
            uri = f"http://example.org/{i}"
            out.write_record(
                out.create_warc_record(
                    uri, "conversion", payload=BytesIO(text.encode()), warc_content_type="text/plain"
                )
            )
            found.append(text)
            body = text.encode()
            kind, fields = [
                ("text/html", []),
                ("text/plain; charset=utf-8", []),
                ("image/png", []),
                ("text/plain", [("Transfer-Encoding", "chunked")]),
            ][i % 4]
            sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if fields and body else body
            headers = StatusAndHeaders("200 OK", [("Content-Type", kind), *fields], protocol="HTTP/1.1")
            out.write_record(out.create_warc_record(uri, "response", payload=BytesIO(sent), http_headers=headers))
            if i % 2:
                found.append(text)
            out.write_record(
                out.create_warc_record(
                    uri, "metadata", payload=BytesIO(b"x: y"), warc_content_type="application/warc-fields"
                )
            )
    cases["crawl"] = {
        "paths": ["crawl.warc.gz"],
        "documents": [t for t in found if t],
        "format": "warc",
        "left_out": {"html": 12, "media": 11},
    }


def tars(folder: Path, cases: dict[str, Any]) -> None:
    from webdataset import TarWriter

    for name in ("samples.tar", "samples.tar.gz"):
        with TarWriter(str(folder / name)) as out:
            for i, text in enumerate(TEXTS):
                if i % 3 == 0:
                    out.write({"__key__": f"part/{i:04}", "json": {"text": text, "lang": "en"}, "cls": i})
                else:
                    out.write({"__key__": f"part/{i:04}", "txt": text, "json": {"lang": "de"}, "cls": i})
        cases[name] = {"paths": [name], "documents": [t for t in TEXTS if t], "format": "tar", "meta": ["lang"]}
    found = documents(np.int32)
    with TarWriter(str(folder / "ids.tar")) as out:
        for i, ids in enumerate(found):
            out.write(
                {"__key__": f"{i:04}", "npy": np.array(ids, dtype=np.int32)}
                if i % 2
                else {"__key__": f"{i:04}", "json": {"ids": ids}}
            )
    cases["ids.tar"] = {"paths": ["ids.tar"], "tokens": True, "documents": found, "format": "tar"}


if __name__ == "__main__":
    where, which = Path(sys.argv[1]), sys.argv[2:]
    made: dict[str, Any] = {}
    for make in (megatron, mds, saved, token_files, archive, tars):
        if not which or make.__name__ in which:
            make(where, made)
    (where / "expected.json").write_text(json.dumps(made))
