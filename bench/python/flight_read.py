"""Measures the read rate of pyarrow from a loaderd Flight server, and in the same run from Arrow's C++ Flight server
with the same batch, and of a raw socket.

    bin/flightserve -rows 128 -bucket 2048
    python bench/python/flight_read.py --address 127.0.0.1:8815 --raw 127.0.0.1:8816 --server $! --cpp

Rounds alternate between all methods, so that a busy machine slows them equally; each figure is the median of its
rounds. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "loaders"), str(HERE.parents[1] / "python" / "src")]

import cpu  # noqa: E402
from loaderd import keep_memory  # noqa: E402


def values_address(column: pa.Array) -> int:
    return column.values.buffers()[1].address


def stream(client: fl.FlightClient, ticket: dict, seconds: float) -> dict:
    """One long DoGet: bytes per second, and the wait for each batch."""
    reader = client.do_get(fl.Ticket(json.dumps(ticket)))
    total, tokens, waits, aligned = 0, 0, [], True
    reader.read_chunk()
    start = now = time.perf_counter()
    while now - start < seconds:
        batch = reader.read_chunk().data
        then, now = now, time.perf_counter()
        waits.append(now - then)
        total += batch.nbytes
        tokens += len(batch.column(0).values)
        aligned &= all(values_address(c) % 8 == 0 for c in batch.columns)
    reader.cancel()
    return {
        "bytes_per_second": total / (now - start),
        "tokens_per_second": tokens / (now - start),
        "aligned": aligned,
        "batch_bytes": total / len(waits),
        "p50_us": 1e6 * float(np.percentile(waits, 50)),
        "p99_us": 1e6 * float(np.percentile(waits, 99)),
    }


def call_per_step(client: fl.FlightClient, ticket: dict, seconds: float) -> dict:
    """A DoGet per step."""
    total, waits, step = 0, [], 0
    start = now = time.perf_counter()
    while now - start < seconds:
        table = client.do_get(fl.Ticket(json.dumps({**ticket, "step": step, "steps": 1}))).read_all()
        then, now = now, time.perf_counter()
        waits.append(now - then)
        total += table.nbytes
        step += 1
    return {
        "bytes_per_second": total / (now - start),
        "p50_us": 1e6 * float(np.percentile(waits, 50)),
        "p99_us": 1e6 * float(np.percentile(waits, 99)),
    }


def with_server_cpu(process: int, read: Callable[[], dict]) -> dict:
    """Returns the figures of a reader, and the CPU seconds of its server per GB; 0 without a process."""
    if not process:
        return read()
    before, began = cpu.seconds([process]), time.perf_counter()
    out = read()
    gigabytes = out["bytes_per_second"] * (time.perf_counter() - began) / 1e9
    return out | {"server_cpu_seconds_per_gb": (cpu.seconds([process]) - before) / gigabytes}


@contextlib.contextmanager
def cpp_server(address: str, ticket: dict) -> Iterator[tuple[str, int]]:
    """Starts Arrow's C++ server with a batch of another server, and yields its address and process."""
    command = [sys.executable, str(Path(__file__).with_name("flight_cpp.py")), address, json.dumps(ticket)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        yield server.stdout.readline().strip(), server.pid
        server.stdin.close()


def raw_socket(address: str, size: int) -> dict:
    """The same machine without gRPC and Arrow."""
    host, port = address.rsplit(":", 1)
    block = memoryview(bytearray(1 << 20))
    with socket.create_connection((host, int(port))) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        start, left = time.perf_counter(), size
        s.sendall(struct.pack("<Q", size))
        while left:
            left -= s.recv_into(block)
        return {"bytes_per_second": size / (time.perf_counter() - start)}


def median(rounds: list[dict]) -> dict:
    return {
        k: all(r[k] for r in rounds) if k == "aligned" else statistics.median(r[k] for r in rounds) for k in rounds[0]
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--address", default="127.0.0.1:8815", help="host:port of the Flight server")
    p.add_argument("--raw", default="", help="host:port of flightserve's raw socket")
    p.add_argument("--server", type=int, default=0, help="process of the Flight server, to measure its CPU time")
    p.add_argument("--cpp", action="store_true", help="also measure Arrow's C++ server")
    p.add_argument("--columns", default="input_ids,segment_ids")
    p.add_argument("--rank", type=int, default=0)
    p.add_argument("--world", type=int, default=1)
    p.add_argument("--seconds", type=float, default=2.0, help="seconds per round")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--token", default="", help="bearer token")
    p.add_argument("--keep-memory", action="store_true", help="as loaderd.keep_memory: reuse freed memory")
    a = p.parse_args()
    if a.keep_memory and not keep_memory():
        p.error("--keep-memory takes glibc")

    options = {"generic_options": [("GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH", -1)]}
    if a.token:

        class Token(fl.ClientMiddlewareFactory):
            def start_call(self, info):
                return Bearer()

        class Bearer(fl.ClientMiddleware):
            def sending_headers(self):
                return {"authorization": f"Bearer {a.token}"}

        options["middleware"] = [Token()]
    ticket = {"rank": a.rank, "world": a.world, "columns": a.columns.split(",")}
    rounds: dict[str, list[dict]] = {}
    with contextlib.ExitStack() as stack:
        clients = [("", stack.enter_context(fl.connect(f"grpc://{a.address}", **options)), a.server)]
        if a.cpp:
            address, process = stack.enter_context(cpp_server(a.address, ticket))
            clients.append(("cpp_", stack.enter_context(fl.connect(f"grpc://{address}", **options)), process))
        for _ in range(a.rounds):
            for name, client, process in clients:
                for read in (stream, call_per_step):
                    figures = with_server_cpu(process, functools.partial(read, client, ticket, a.seconds))
                    rounds.setdefault(name + read.__name__, []).append(figures)
            if a.raw:
                size = int(rounds["stream"][-1]["bytes_per_second"] * a.seconds)
                rounds.setdefault("raw", []).append(raw_socket(a.raw, size))
    out = {"pyarrow": pa.__version__, "ticket": ticket, **{k: median(v) for k, v in rounds.items()}}
    if a.raw:
        for k in ("stream", "call_per_step"):
            out[k]["of_raw"] = out[k]["bytes_per_second"] / out["raw"]["bytes_per_second"]
    print(json.dumps(out, indent=2))


if __name__ == "__main__":
    main()
