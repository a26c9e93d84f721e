"""The client of a loader: its connection to the run, and the description of the run."""

from __future__ import annotations

import time

from loaderd._client import Client
from loaderd._wire import RunInfo
from loaderd.errors import WorldMismatchError
from loaderd.torch._batch import BatchFormat
from loaderd.torch._document_run import DocumentRun
from loaderd.torch._guard import ProcessGuard
from loaderd.torch._options import ClientOptions

_MEASURE_POLL_SECONDS = 0.2


class RunClient:
    """Connects to the run on first use."""

    def __init__(
        self, options: ClientOptions, batch_format: BatchFormat, guard: ProcessGuard, documents: DocumentRun | None
    ) -> None:
        self._options, self._format, self._guard, self._documents = options, batch_format, guard, documents
        self._client: Client | None = None
        self._info: RunInfo | None = None

    def connect(self) -> Client:
        """Returns the client, which the first call creates.

        Raises:
            ClosedClientError: If the loader was closed.
            RuntimeError: If the loader cannot be used in this process.
            DaemonNotFoundError: If the private daemon cannot be started.
        """
        self._guard.check()
        if self._client is None:
            o = self._options
            self._client = Client(
                o.url if self._documents is None else self._documents.start(),
                run=o.run,
                job=o.job,
                token=o.token,
                tls=o.tls,
                timeout=o.timeout,
                connect_timeout=o.connect_timeout,
                sources=self._format.sources,
                weights=self._format.weights,
                columns=self._format.columns,
            )
        return self._client

    def check(self) -> None:
        """Raises the error of publishing in the background, if any."""
        if self._documents is not None:
            self._documents.check()

    @property
    def info(self) -> RunInfo:
        """The run as it was on the first request."""
        if self._info is None:
            self._info = self.connect().info()
        return self._info

    def rows(self, bucket: int, world_size: int) -> int:
        """Returns the rows of one rank in a step of a bucket: the most, if `steps.schedule` changes them.

        Args:
            bucket: The row length in tokens.
            world_size: The number of ranks.

        Raises:
            ValueError: If the run has no such bucket.
            WorldMismatchError: If the world size does not divide the rows of a step.
        """
        info = self.info
        if bucket not in info.rows:
            raise ValueError(f"run {info.name} has no bucket {bucket}: want one of {list(info.buckets)}")
        total = info.rows[bucket]
        if total % world_size:
            raise WorldMismatchError(
                f"cannot divide the {total} rows of a step of bucket {bucket} among {world_size} ranks"
            )
        return total // world_size

    def measure(self, timeout: float | None) -> int:
        """Makes the daemon count the steps of the run, and waits for the number.

        Args:
            timeout: Seconds to wait; None waits without a limit.

        Raises:
            InvalidTicketError: If a source is not sealed, or the run has no end.
            TimeoutError: If the number is not available in time.
        """
        client, started = self.connect(), time.monotonic()
        client.measure()
        while True:
            length = client.info().length
            if length is not None and length.exact:
                return length.steps
            if length is not None and (length.open or length.endless or length.idle):
                client.measure()  # the run was changed; this raises the reason
            if timeout is not None and time.monotonic() - started >= timeout:
                raise TimeoutError(f"the run is not measured after {timeout:g} s: {length}")
            time.sleep(_MEASURE_POLL_SECONDS)

    def close(self) -> None:
        """Disconnects."""
        if self._client is not None:
            self._client.close()
