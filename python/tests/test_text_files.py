"""Text files as `loaderd publish` reads them, compared with Python's csv, json and codecs, pandas and pyarrow."""

import asyncio
import csv
import io
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pandas
import pytest
from pyarrow import csv as arrow_csv

from conftest import Daemon

FILES = 150


@pytest.fixture(scope="module")
def daemon(module_daemon: Callable[..., Daemon]) -> Daemon:
    return module_daemon({})


def published(daemon: Daemon, paths: list[Path], source: str, *flags: str) -> list[str]:
    """Returns the texts of files, as they are in the document stream."""
    command: list[str | Path] = [
        daemon.binary,
        "publish",
        "--daemon",
        daemon.folder / "data",
        "--source",
        source,
        *flags,
        *paths,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return asyncio.run(stored(daemon, f"docs.{source}"))


async def stored(daemon: Daemon, subject: str) -> list[str]:
    connection = await nats.connect(
        f"nats://{daemon.nats}", token=(daemon.folder / "data" / "operator.token").read_text().strip()
    )
    try:
        stream = connection.jetstream()
        last = (await stream.get_last_msg("DOCS", subject)).seq
        documents = await stream.subscribe(subject, ordered_consumer=True)
        texts: list[str] = []
        while True:
            message = await documents.next_msg(timeout=60)
            texts.append(message.data.decode())
            if message.metadata.sequence.stream == last:
                return texts
    finally:
        await connection.close()


def by_pandas(table: str, **options: Any) -> list[str]:
    frame = pandas.read_csv(
        io.StringIO(table, newline=""), dtype=str, keep_default_na=False, na_filter=False, **options
    )
    return list(frame["text"])


def by_pyarrow(table: str, separator: str, escape: bool, quoting: bool = True) -> list[str]:
    parse = arrow_csv.ParseOptions(
        delimiter=separator,
        quote_char='"' if quoting else False,
        escape_char="\\" if escape else False,
        newlines_in_values=True,
    )
    convert = arrow_csv.ConvertOptions(column_types={"text": "string", "id": "string"}, strings_can_be_null=False)
    texts: list[str] = arrow_csv.read_csv(io.BytesIO(table.encode()), parse_options=parse, convert_options=convert)[
        "text"
    ].to_pylist()
    return texts


def by_csv(table: str, **options: Any) -> list[str]:
    return [row["text"] for row in csv.DictReader(io.StringIO(table, newline=""), **options)]


def field(rng: random.Random, enclosed: bool, separator: str, escape: bool) -> str:
    """Returns a field of a careless writer: doubled, escaped and bare quotes, and text after the closing one."""
    if not enclosed:
        return rng.choice("aé7") + "".join(rng.choices(["a", '"', " ", "é", "'"], k=rng.randint(0, 6)))
    escaped = ['\\"', "\\\\", "\\n"] if escape else ["\\"]
    text = "".join(
        rng.choices(["a", " ", "é", separator, "\n", "\r\n", "\r", '""', "'", *escaped], k=rng.randint(0, 8))
    )
    return f'"{text}"' + rng.choice(["", "", "b", ' b"c'])


def make_table(rng: random.Random, separator: str, escape: bool) -> str:
    end = rng.choice(["\n", "\r\n", "\r"])
    rows = [
        separator.join([str(i), field(rng, rng.random() < 0.6, separator, escape)]) for i in range(rng.randint(1, 12))
    ]
    return f"id{separator}text{end}" + "".join(row + end + end * (rng.random() < 0.1) for row in rows)


@pytest.mark.parametrize(
    ("name", "separator", "escape"), [("comma", ",", False), ("tab", "\t", False), ("escape", ",", True)]
)
def test_random_tables_with_quotes(daemon: Daemon, tmp_path: Path, name: str, separator: str, escape: bool) -> None:
    rng, paths, expected = random.Random(name), [], []
    for i in range(FILES):
        table = make_table(rng, separator, escape)
        options = {"escapechar": "\\"} if escape else {}
        texts = by_pandas(table, sep=separator, **options)
        assert texts == by_pyarrow(table, separator, escape) == by_csv(table, delimiter=separator, **options)
        expected += [text for text in texts if text]
        paths.append(tmp_path / f"{i:03}.csv")
        paths[-1].write_text(table, newline="")
    flags = ["--csv-quoting", "on", "--csv-escape", "backslash" if escape else "none"]
    assert published(daemon, paths, name, *flags) == expected


def test_random_tables_without_quoting(daemon: Daemon, tmp_path: Path) -> None:
    rng, paths, expected = random.Random(7), [], []
    for i in range(FILES):
        end = rng.choice(["\n", "\r\n"])
        rows = [
            f"{n}\t" + "".join(rng.choices(["a", '"', " ", "é", "\\"], k=rng.randint(1, 8))).strip()
            for n in range(rng.randint(1, 12))
        ]
        table = f"id\ttext{end}" + "".join(row + end for row in rows)
        texts = by_pandas(table, sep="\t", quoting=csv.QUOTE_NONE)
        assert (
            texts
            == by_pyarrow(table, "\t", escape=False, quoting=False)
            == by_csv(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        )
        expected += [text for text in texts if text]
        paths.append(tmp_path / f"{i:03}.tsv")
        paths[-1].write_text(table, newline="")
    assert published(daemon, paths, "off", "--csv-quoting", "off") == expected


def test_written_tables_are_detected(daemon: Daemon, tmp_path: Path) -> None:
    """Tables of pandas are read back, with any quoting. So are tables without quoting."""
    rng, paths, expected = random.Random(8), [], []
    for i in range(FILES):
        texts = [
            "".join(rng.choices(["a", '"', " ", "é", "\\b", ",", "\n", "\r\n"], k=rng.randint(1, 30))) + "."
            for _ in range(40)
        ]
        separator, quoting = rng.choice(
            [
                (",", csv.QUOTE_MINIMAL),
                ("\t", csv.QUOTE_MINIMAL),
                ("\t", csv.QUOTE_ALL),
                (";", csv.QUOTE_NONNUMERIC),
                ("\t", csv.QUOTE_NONE),
            ]
        )
        paths.append(tmp_path / f"{i:03}.csv")
        if quoting == csv.QUOTE_NONE:
            texts = [text.replace("\r\n", "").replace("\n", "") for text in texts]
            paths[-1].write_text("id\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts)), newline="")
        else:
            pandas.DataFrame({"id": range(40), "text": texts}).to_csv(
                paths[-1], sep=separator, quoting=quoting, index=False
            )
        expected += texts
    assert published(daemon, paths, "written") == expected


@pytest.mark.parametrize("encoding", ["cp1252", "shift_jis", "gb18030", "utf-16", "utf-16-be"])
def test_encodings(daemon: Daemon, tmp_path: Path, encoding: str) -> None:
    name = {"cp1252": "latin1", "shift_jis": "shift_jis", "gb18030": "gb18030", "utf-16": "", "utf-16-be": "utf-16be"}[
        encoding
    ]
    rng, letters = random.Random(encoding), "ab\n c" + ("é€" if encoding == "cp1252" else "日本")
    texts = ["".join(rng.choices(letters, k=rng.randint(1, 40))) for _ in range(20)]
    (tmp_path / "a.jsonl").write_bytes(
        "".join(json.dumps({"text": t}, ensure_ascii=False) + "\n" for t in texts).encode(encoding)
    )
    (tmp_path / "b.txt").write_bytes(texts[0].encode(encoding))
    flags = ["--encoding", name] if name else []
    assert published(daemon, [tmp_path / "a.jsonl", tmp_path / "b.txt"], encoding, *flags) == [*texts, texts[0]]


def test_bytes_that_are_not_utf8(daemon: Daemon, tmp_path: Path) -> None:
    """They are decoded as by Python's decoder."""
    rng, paths, expected = random.Random(9), [], []
    for i in range(FILES):
        data = bytearray(("é日😀 word\n" * 200).encode())
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            data[at : at + 1] = rng.choice([b"", b"\xff", b"\xc3", b"\xf0\x9f", b"\xed\xa0\x80", b"\xe2\x82"])
        paths.append(tmp_path / f"{i:03}.txt")
        paths[-1].write_bytes(data)
        expected.append(bytes(data).decode(errors="replace"))
    assert published(daemon, paths, "bytes") == expected


def test_json_as_python_writes_it(daemon: Daemon, tmp_path: Path) -> None:
    rng, values = (
        random.Random(10),
        [
            float("nan"),
            float("inf"),
            float("-inf"),
            1.5,
            "NaN",
            'a "-Infinity',
            None,
            [float("nan")],
            {"a": float("inf")},
        ],
    )
    texts = [f"text {i} NaN" for i in range(200)]
    lines = [
        json.dumps({"a": rng.choice(values), "doc": {"x": rng.choice(values), "text": text}, "z": rng.choice(values)})
        for text in texts
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.json").write_text(f"[{','.join(lines)}]")
    assert (
        published(daemon, [tmp_path / "a.jsonl", tmp_path / "b.json"], "json", "--text-column", "doc.text") == texts * 2
    )
