"""A corpus that does not fill the packing pool and the shuffle window of the defaults."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from conftest import Daemon
from loaderd import Client
from tokenized import SETTINGS, publish_tokens
from waiting import wait_for

DEFAULTS = {name: value for name, value in SETTINGS.items() if name.startswith("tokenizer.")}


def test_a_small_corpus_gives_steps(daemon: Callable[..., Daemon]) -> None:
    d = daemon({**DEFAULTS, "serve.first_step_quiet": "2s"})
    publish_tokens(d.nats_url, list(np.ones((300, 1000), np.int32)))
    with Client(d.flight_url) as client, ThreadPoolExecutor() as trainer:
        assert [next(client).input_ids.shape for _ in range(2)] == [(64, 2048)] * 2
        third = trainer.submit(next, client)
        wait_for(
            lambda: client.status().do.endswith(
                "loaderd seal: its last step then has 22 rows of documents and 42 of padding"
            )
        )
        client.seal()
        assert third.result().input_ids.shape == (64, 2048) and not list(client)
