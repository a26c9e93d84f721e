"""Serves one record batch again and again with Arrow's own Flight server, the C++ one that pyarrow contains.

It reads the batch from a loaderd server, prints its own address, and serves until its standard input ends. All
responses are sent by C++ code, without the interpreter.
"""

from __future__ import annotations

import json
import sys
import threading

import pyarrow as pa
import pyarrow.flight as fl

STREAM_BATCHES = 1 << 20


class Server(fl.FlightServerBase):
    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.batch = batch
        self.endless = pa.Table.from_batches([batch] * STREAM_BATCHES)

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.RecordBatchStream:
        steps = json.loads(ticket.ticket).get("steps", 0)
        return fl.RecordBatchStream(pa.Table.from_batches([self.batch] * steps) if steps else self.endless)


def main() -> None:
    address, ticket = sys.argv[1:]
    with fl.connect(f"grpc://{address}") as client:
        reader = client.do_get(fl.Ticket(ticket))
        batch = reader.read_chunk().data
        reader.cancel()
    with Server(batch) as server:
        print(f"127.0.0.1:{server.port}", flush=True)
        threading.Thread(target=server.serve, daemon=True).start()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
