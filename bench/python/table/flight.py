"""Flight into pyarrow, compared with a raw socket that transfers as many bytes over loopback, and with Arrow's
C++ Flight server.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from bench import Bench, python
from measures import Measure

RAW = "a raw socket"
CPP = "Arrow's C++ Flight server"


def flight(bench: Bench) -> Iterator[Measure]:
    """Batches of 1 and 2 MiB on an open stream and by a call per step, then the tokens of narrow ids."""
    for mib, rows in ((1, 85), (2, 170)):
        found = read(bench, rows, *(["--cpp"] if mib == 2 else []))
        raw = found["raw"]["bytes_per_second"] / 1e9
        for way, name in (("stream", "on an open stream"), ("call_per_step", "by a call a step")):
            yield Measure(
                f"Flight into pyarrow {name}, {mib} MiB", found[way]["bytes_per_second"] / 1e9, "GB/s", raw, RAW
            )
        if mib == 2:
            for way, name in (("stream", "on an open stream"), ("call_per_step", "by a call a step")):
                ours, theirs = found[way], found[f"cpp_{way}"]
                yield Measure(
                    f"Flight into pyarrow {name}, against C++",
                    ours["bytes_per_second"] / 1e9,
                    "GB/s",
                    theirs["bytes_per_second"] / 1e9,
                    CPP,
                )
                yield Measure(
                    f"CPU of the Flight server {name}",
                    ours["server_cpu_seconds_per_gb"],
                    "s/GB",
                    theirs["server_cpu_seconds_per_gb"],
                    CPP,
                    better="lower",
                )
    narrow = read(bench, 512, "--columns", "input_ids:uint16,cu_seqlens")
    tokens = narrow["stream"]["tokens_per_second"] / 1e6
    yield Measure(
        "Flight into pyarrow, ids of 16 bits, 2 MiB",
        tokens,
        "M tokens/s",
        narrow["raw"]["bytes_per_second"] / 2e6,
        f"{RAW}, two bytes a token",
    )


def read(bench: Bench, rows: int, *options: str) -> dict[str, dict[str, float]]:
    """Returns the measurements of one server's clients."""
    serve = [
        bench.program("flightserve"),
        "-listen",
        "127.0.0.1:0",
        "-raw",
        "127.0.0.1:0",
        "-rows",
        str(rows),
        "-bucket",
        "2048",
    ]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            _, address, _, raw = server.stdout.readline().split()
            length = ["--seconds", "0.1", "--rounds", "1"] if bench.moment else ["--seconds", "1", "--rounds", "5"]
            found: dict[str, dict[str, float]] = bench.ask(
                [
                    python(),
                    bench.script("flight_read.py"),
                    "--address",
                    address,
                    "--raw",
                    raw,
                    "--server",
                    server.pid,
                    *length,
                    *options,
                ]
            )
        finally:
            server.terminate()
    return found
