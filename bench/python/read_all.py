"""Reads a whole run as one rank with plain pyarrow and prints what it received and when, as JSON."""

import json
import resource
import sys
import time

import pyarrow.flight as flight

client = flight.connect(sys.argv[1], generic_options=[("grpc.max_receive_message_length", -1)])
reader = client.do_get(flight.Ticket(json.dumps({"rank": 0, "world": 1}).encode()))
tokens = slots = size = batches = 0
first = last = 0.0
for chunk in reader:
    last = time.time()
    first = first or last
    meta = json.loads(chunk.app_metadata.to_pybytes())
    tokens += meta["tokens"]
    slots += meta["rows"] * meta["bucket"]
    size += chunk.data.nbytes
    batches += 1
print(
    json.dumps(
        {
            "tokens": tokens,
            "slots": slots,
            "bytes": size,
            "batches": batches,
            "first_batch_at": first,
            "last_batch_at": last,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
    )
)
