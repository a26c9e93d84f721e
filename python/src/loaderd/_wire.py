"""The wire format of docs/reference/wire.md.

It encodes tickets, and decodes metadata of record batches and the description of a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loaderd.errors import ProtocolError

INPUT_IDS = "input_ids"
NARROW_IDS = "input_ids:uint16"
CU_SEQLENS = "cu_seqlens"
DOCUMENTS = "documents"
SOURCES = "sources"
LOSS_RUNS = "loss_runs"
LOSS_WEIGHTS = "loss_weights"
DEFAULT_JOB = "trainer"
NARROW_LIMIT = 1 << 16
"""Token ids below this are sent as uint16."""


@dataclass(frozen=True)
class Ticket:
    """The steps that a rank of a job requests.

    Attributes:
        rank: The data-parallel rank.
        world_size: The number of ranks.
        step: The index of the first step.
        steps: The number of steps; None for all.
        columns: Names of the columns.
        run: The name that the run must have.
        fingerprint: The fingerprint that the run must have.
        job: The name of the training job.
        run_id: The id that the run must have.
        session: Identifies the client, which then reports consumption.
        peer: The number of this process among those that read as the same rank.
        taken: The trainer has taken the steps before this one so far.
        read: How many steps before `step` the client has read.
    """

    rank: int = 0
    world_size: int = 1
    step: int = 0
    steps: int | None = None
    columns: tuple[str, ...] = (INPUT_IDS, CU_SEQLENS)
    run: str | None = None
    fingerprint: str | None = None
    job: str = DEFAULT_JOB
    run_id: str | None = None
    session: str | None = None
    peer: int = 0
    taken: int = 0
    read: int = 0

    def encode(self) -> bytes:
        """Returns the ticket as JSON."""
        body = self.identity() | {"step": self.step, "columns": list(self.columns)}
        body |= {k: v for k, v in (("steps", self.steps), ("fingerprint", self.fingerprint)) if v is not None}
        if self.session is not None:
            body |= {"taken": self.taken, "read": self.read}
        return json.dumps(body).encode()

    def identity(self) -> dict[str, Any]:
        """The keys that a report of the rank's consumption shares with the ticket."""
        body: dict[str, Any] = {"rank": self.rank, "world": self.world_size}
        body |= {k: v for k, v in (("run", self.run), ("run_id", self.run_id)) if v is not None}
        if self.job != DEFAULT_JOB:  # else the daemon decides: the caller's job may be the default
            body["job"] = self.job
        if self.session is not None:
            body |= {"session": self.session, "peer": self.peer}
        return body


@dataclass(frozen=True)
class SourceCount:
    """The counts of some rows per source.

    Attributes:
        tokens: Tokens without padding.
        loss_tokens: Those of them that have a loss.
    """

    tokens: int
    loss_tokens: int


@dataclass
class Metadata:
    """The metadata of a record batch.

    Counts are of this batch, those that begin with `step_` of the step on all ranks. Treat it as immutable; a frozen
    class takes three times as long to create.
    """

    run: str
    step: int
    part: int
    parts: int
    bucket: int
    rows: int
    tokens: int
    loss_tokens: int
    documents: int
    max_seqlen: int
    step_tokens: int
    step_segments: int
    step_loss_tokens: int
    step_loss_segments: int
    step_rows: int
    step_sources: int | None = None
    weighted: bool = False
    sources: Mapping[str, SourceCount] | None = None

    @classmethod
    def decode(cls, data: bytes) -> Metadata:
        """Decodes app_metadata; raises ProtocolError if a key is missing or of another type.

        Unknown keys are ignored.
        """
        body = loads(data, "metadata of a batch")
        run, numbers = body.get("run"), {k: body.get(k) for k in _NUMBERS}
        numbers |= {k: body[k] for k in ("step_sources",) if k in body}
        bad = [k for k, v in numbers.items() if type(v) is not int or v < 0]
        if bad or not isinstance(run, str):
            raise ProtocolError(
                f"metadata of a batch: {', '.join(bad) or 'run'}: missing or invalid, see docs/reference/wire.md: "
                f"{body}"
            )
        sources = _source_counts(body["sources"]) if "sources" in body else None
        return cls(run=run, sources=sources, weighted=body.get("weighted") is True, **numbers)  # type: ignore[arg-type]


_NUMBERS = (
    "step",
    "part",
    "parts",
    "bucket",
    "rows",
    "tokens",
    "loss_tokens",
    "documents",
    "max_seqlen",
    "step_tokens",
    "step_segments",
    "step_loss_tokens",
    "step_loss_segments",
    "step_rows",
)


def _source_counts(body: Any) -> dict[str, SourceCount]:
    try:
        counts = {str(name): (c["tokens"], c["loss_tokens"]) for name, c in body.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ProtocolError(
            f"metadata of a batch: sources: invalid, see docs/reference/wire.md: {body!r:.200}"
        ) from error
    if any(type(n) is not int or n < 0 for c in counts.values() for n in c):
        raise ProtocolError(f"metadata of a batch: sources: invalid, see docs/reference/wire.md: {body!r:.200}")
    return {name: SourceCount(*c) for name, c in counts.items()}


@dataclass(frozen=True)
class MixtureChange:
    """The result of a mixture change.

    Attributes:
        step: The first step that can differ.
        target: The share of tokens that each source is to have.
        again: Whether the plan already had a change decided after the same number of steps; `target` is then that
            change's.
    """

    step: int
    target: Mapping[str, float]
    again: bool = False

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> MixtureChange:
        """Decodes the answer to a change.

        Args:
            body: The result of the action `mix`.

        Raises:
            ProtocolError: If it is malformed.
        """
        step, target, again = body.get("step"), body.get("target"), body.get("again", False)
        shares = isinstance(target, dict) and all(type(v) in (int, float) for v in target.values())
        if type(step) is not int or not shares or type(again) is not bool:
            raise ProtocolError(f"result of mix: invalid, see docs/reference/wire.md: {body!r:.200}")
        return cls(step, {name: float(share) for name, share in target.items()}, again)  # type: ignore[union-attr]


class WorldSize(NamedTuple):
    """The number of ranks of a job.

    Attributes:
        ranks: The number.
        step: The first step that these ranks read.
    """

    ranks: int
    step: int


@dataclass(frozen=True)
class RunLength:
    """How many steps a run has, from its first to its last.

    Attributes:
        steps: The number of steps; an estimate unless `exact`.
        error: The error of an estimate, which it exceeds in one of twenty cases.
        exact: Whether the plan has ended, or was measured to its end. Only a later change alters the number then.
        endless: Whether a source is read without end.
        idle: Whether sources have documents left, and all their weights are 0; `steps` is 0 then.
        open: Names of the sources that are not sealed. `steps` assumes that each ends after its last stored document.
        measured: The fraction of the steps that a running measurement has counted.
    """

    steps: int
    error: int = 0
    exact: bool = False
    endless: bool = False
    idle: bool = False
    open: tuple[str, ...] = ()
    measured: float = 0.0

    @classmethod
    def decode(cls, body: Mapping[str, Any] | None) -> RunLength | None:
        """Decodes the length of a run.

        Args:
            body: `length` of the action `info`.

        Returns:
            The length; None if it is omitted.
        """
        if body is None:
            return None
        return cls(
            steps=int(body["steps"]),
            error=int(body["error"]),
            exact=bool(body["exact"]),
            endless=bool(body.get("endless", False)),
            idle=bool(body.get("idle", False)),
            open=tuple(str(name) for name in body.get("open") or ()),
            measured=float(body.get("measured", 0.0)),
        )


@dataclass(frozen=True, repr=False)
class RunStatus:
    """The status of a run.

    The daemon's live page, `loaderd status` and the errors of waiting ranks show the same sentence.

    Attributes:
        run: The run's name.
        health: "running", "waiting" or "failing".
        sentence: The state in a line.
        detail: Further facts; may be empty.
        do: The remedy; may be empty.
        reason: The reason of the error that a waiting rank gets.
        limits: The name of the bottleneck stage.
        planned: The number of planned steps.
        ended: Whether no step follows.
        figures: The whole answer of the action `status` (docs/reference/wire.md): rates, stages, sources, ranks,
            committing jobs, daemons, dead letters, events.
    """

    run: str
    health: str
    sentence: str
    detail: str
    do: str
    reason: str
    limits: str
    planned: int
    ended: bool
    figures: Mapping[str, Any]

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> RunStatus:
        """Decodes the status of a run.

        Args:
            body: The result of the action `status`.

        Raises:
            ProtocolError: If it is malformed.
        """
        try:
            verdict = body["verdict"]
            texts = {k: str(verdict.get(k, "")) for k in ("detail", "do", "reason", "limits")}
            return cls(
                run=str(body["run"]),
                health=str(verdict["health"]),
                sentence=str(verdict["sentence"]),
                planned=int(body["planned_steps"]),
                ended=bool(body["ended"]),
                figures=body,
                **texts,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"status of the run: {type(error).__name__}: {error}") from error

    def __str__(self) -> str:
        """Returns the verdict, the remedy, and a line per job and pending resize."""
        lines = [f"{self.sentence}: {self.do}" if self.do else self.sentence]
        for job in self.figures.get("jobs") or ():
            ranks = f"job {job['job']}: {job['present']} of {job['world']} ranks, {job['state']}"
            lines.append(f"{ranks}. {job['sentence']}" if job.get("sentence") else ranks)
        lines += [resize["sentence"] for resize in self.figures.get("resizes") or ()]
        return "\n".join(lines)

    __repr__ = __str__  # a notebook shows this for loader.status()


@dataclass(frozen=True)
class Phase:
    """A part of a run with its own size of steps.

    Attributes:
        buckets: The row lengths in tokens, ascending.
        rows: The rows of a step over all ranks after the ramp, by bucket.
        start_rows: The rows before the ramp; empty without a ramp.
        first_step: The phase's first step, including those of the runs from which the run was forked; None until it has
            begun.
        from_step: The step from which it is planned, if it counts steps.
        from_tokens: The tokens of documents in steps after which it begins, if it counts tokens.
        ramp_steps: The number of steps over which the rows change.
        ramp_tokens: The number of tokens over which the rows change.
    """

    buckets: tuple[int, ...]
    rows: Mapping[int, int]
    start_rows: Mapping[int, int]
    first_step: int | None
    from_step: int
    from_tokens: int
    ramp_steps: int
    ramp_tokens: int

    @classmethod
    def decode(cls, body: Mapping[str, Any], buckets: tuple[int, ...]) -> Phase:
        """Decodes a phase of the action `info`.

        Args:
            body: The phase.
            buckets: The row lengths of the configuration, those of phases that do not change them.
        """
        start = body.get("start_rows")
        first = body.get("first_step")
        buckets = tuple(map(int, body.get("buckets") or buckets))
        return cls(
            buckets=buckets,
            rows=dict(zip(buckets, map(int, body["step_rows"]), strict=True)),
            start_rows=dict(zip(buckets, map(int, start), strict=True)) if start else {},
            first_step=None if first is None else int(first),
            from_step=int(body.get("from_step", 0)),
            from_tokens=int(body.get("from_tokens", 0)),
            ramp_steps=int(body.get("ramp_steps", 0)),
            ramp_tokens=int(body.get("ramp_tokens", 0)),
        )

    def most_rows(self, bucket: int) -> int:
        """Returns the most rows of a step of a bucket, 0 if the phase does not have it."""
        return max(self.rows.get(bucket, 0), self.start_rows.get(bucket, 0))


@dataclass(frozen=True)
class RunInfo:
    """A run as the daemon describes it.

    Attributes:
        name: The run's name.
        fingerprint: The identity of its configuration and tokenizer.
        buckets: The row lengths of all phases in tokens, ascending.
        rows: The most rows of a step over all ranks, by bucket.
        phases: The parts of the run with their own size of steps, in order; one without `steps.schedule`.
        vocab_size: The number of token ids of the tokenizer.
        pad: The token id of padding.
        attention: "document" or "row": what a segment is.
        oldest: The first step that can be read.
        planned: Steps before this one can be read.
        committed: All steps before this one are in every job's checkpoint.
        ended: Whether no step follows.
        commits: The committed step of each job that commits.
        configuration: The configuration that determines the plan.
        was: Names that the run had before its plan was repaired.
        daemons: The addresses of its live daemons, if it has several.
        run_id: Distinguishes the run from another one with its name; empty before the run has begun.
        sources: The names of its sources: number n of `Step.source_ids` and `batch["sources"]` is `sources[n]`. A
            source that is added later is appended.
        length: The number of steps that the run will have; None while unknown.
        columns: The columns that the daemon sends.
        ahead: The daemon's serve.ahead.
        world_sizes: The last world size that the ranks of each job have agreed on, and its first step.
    """

    name: str
    fingerprint: str
    buckets: tuple[int, ...]
    rows: Mapping[int, int]
    phases: tuple[Phase, ...]
    vocab_size: int
    pad: int
    attention: str
    oldest: int
    planned: int
    committed: int
    ended: bool
    commits: Mapping[str, int]
    configuration: Mapping[str, Any]
    was: tuple[str, ...] = ()
    daemons: tuple[str, ...] = ()
    run_id: str = ""
    sources: tuple[str, ...] = ()
    length: RunLength | None = None
    columns: tuple[str, ...] = ()
    ahead: int = 0
    world_sizes: Mapping[str, WorldSize] = field(default_factory=dict)

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> RunInfo:
        """Decodes the description of a run.

        Args:
            body: The result of the action `info`.

        Raises:
            ProtocolError: If it is malformed.
        """
        try:
            config = body["config"]
            first = tuple(int(b) for b in config["packing"]["buckets"])
            phases = tuple(Phase.decode(p, first) for p in body["schedule"]["phases"])
            buckets = tuple(sorted({b for p in phases for b in p.buckets}))
            return cls(
                name=str(body["run"]),
                fingerprint=str(body["fingerprint"]),
                buckets=buckets,
                rows={b: max(p.most_rows(b) for p in phases) for b in buckets},
                phases=phases,
                vocab_size=int(config["tokenizer"]["vocab_size"]),
                pad=int(config["tokenizer"]["pad"]),
                attention=str(config["attention"]),
                oldest=int(body["oldest"]),
                planned=int(body["planned"]),
                committed=int(body["committed"]),
                ended=bool(body["ended"]),
                commits={str(k): int(v) for k, v in (body.get("commits") or {}).items()},
                configuration=config,
                was=tuple(str(name) for name in body.get("was") or ()),
                daemons=tuple(str(url) for url in body.get("daemons") or ()),
                run_id=str(body.get("run_id") or ""),
                sources=tuple(str(s["name"]) for s in body.get("sources") or ())
                or tuple(sorted(config.get("sources") or ())),
                length=RunLength.decode(body.get("length")),
                columns=tuple(str(name) for name in body.get("columns") or ()),
                ahead=int(body.get("ahead", 0)),
                world_sizes={
                    str(k): WorldSize(int(v["ranks"]), int(v["step"]))
                    for k, v in (body.get("world_sizes") or {}).items()
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"description of the run: {type(error).__name__}: {error}") from error

    @property
    def ids(self) -> int:
        """All token ids of the run, including padding, are below this."""
        return token_ids(self.configuration)

    @property
    def narrow(self) -> bool:
        """Whether every token id fits uint16."""
        return self.vocab_size <= NARROW_LIMIT and 0 <= self.pad < NARROW_LIMIT


def token_ids(configuration: Mapping[str, Any]) -> int:
    """Returns the number of token ids of a plan's configuration: its ids, including padding, are below it."""
    tokenizer = configuration["tokenizer"]
    return max(int(tokenizer["vocab_size"]), int(tokenizer["pad"]) + 1)


def loads(data: bytes, what: str) -> dict[str, Any]:
    """Decodes a JSON object.

    Raises:
        ProtocolError: If `data` is not a JSON object.
    """
    try:
        body = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what}: not JSON: {data[:200]!r}") from error
    if not isinstance(body, dict):
        raise ProtocolError(f"{what}: not a JSON object: {data[:200]!r}")
    return body
