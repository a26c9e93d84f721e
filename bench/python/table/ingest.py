"""Publishing files and documents in memory, compared with prepared documents in the memory of a Go program."""

from __future__ import annotations

from collections.abc import Iterator

from bench import Bench, python
from measures import Measure


def ingest(bench: Bench) -> Iterator[Measure]:
    """Text from files and from Python into the embedded server; the medians of several rounds, all on two cores."""
    # With less text, a pull on a busy machine ends before it is measured.
    size = ["-megabytes", 40, "-rounds", 1] if bench.moment else ["-megabytes", 300, "-rounds", 5]
    command = [bench.program("ingest"), "-json", "-loaderd", bench.program("loaderd"), "-python", python(), *size]
    memory, *inputs = bench.ask(command, cores=2)
    for found in inputs:
        yield Measure(
            f"publish {found['input']}",
            found["text_mb_per_second"],
            "MB/s",
            memory["text_mb_per_second"],
            "prepared documents in memory",
        )
    for found in inputs:
        if not found["publisher_cpu_ns_per_byte"]:
            continue  # the process of the server publishes
        yield Measure(
            f"publish {found['input']}, CPU of the publisher",
            found["publisher_cpu_ns_per_byte"],
            "ns/byte",
            memory["publisher_cpu_ns_per_byte"],
            "prepared documents in memory",
            better="lower",
        )
