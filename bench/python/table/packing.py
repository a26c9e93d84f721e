"""Packing of related documents, compared with packing only by length in the same process."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator

from bench import Bench
from measures import Measure


def splice(bench: Bench) -> Iterator[Measure]:
    go = bench.say(["go", "env", "GOROOT"]).strip() + "/src"
    if bench.moment:
        yield from of_pool(bench, 256, [go], 20_000_000)
        return
    for pool in (4096, 16384):
        yield from of_pool(bench, pool, [go, sysconfig.get_path("stdlib")], 50_000_000)


def of_pool(bench: Bench, pool: int, folders: list[str], size: int) -> Iterator[Measure]:
    command = [bench.program("splice"), "-json", "-pool", pool, "-bytes", size, *folders]
    speed = {r["variant"]: r["documents_per_second"] for r in bench.ask(command, cores=1)}
    own, by_length = speed["splice"] / 1e3, speed["bucket"] / 1e3
    yield Measure(f"splice, pool of {pool:,}", own, "k documents/s", by_length, "bucket: by length alone")
