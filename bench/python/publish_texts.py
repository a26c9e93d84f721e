"""Publishes the files of Go's library as texts with loaderd.publish, until they have a number of bytes, and prints the
documents, the seconds and the processor time as JSON.

    python3 bench/python/publish_texts.py nats://127.0.0.1:4222 300000000 "$(go env GOROOT)/src"
"""

import itertools
import json
import sys
import time
from pathlib import Path

import nats  # noqa: F401  imported by the first call, before the time starts

import loaderd


def texts(folder: str, size: int) -> list[str]:
    """Returns the contents of the Go files of a folder, repeated."""
    paths = sorted(p for p in Path(folder).rglob("*.go") if p.is_file())
    files = [text for p in paths if (text := p.read_bytes().decode("utf-8", "replace"))]
    found = []
    for text in itertools.cycle(files):
        if size <= 0:
            return found
        found.append(text)
        size -= len(text)
    raise ValueError(f"{folder} has no Go files")


def main() -> None:
    """Publishes documents that are complete in memory before the time starts."""
    url, size, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    documents = texts(folder, size)
    cpu, began = time.process_time(), time.perf_counter()
    done = loaderd.publish(documents, url, source="bench", report=0.0)
    seconds = time.perf_counter() - began
    print(json.dumps({"documents": done.documents, "seconds": seconds, "cpu_seconds": time.process_time() - cpu}))


main()
