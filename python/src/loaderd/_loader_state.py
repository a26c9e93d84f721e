"""The position of a loader, and its state in a trainer's checkpoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loaderd._retry import replaced
from loaderd._skips import NO_SKIPS, Skips
from loaderd._wire import RunInfo
from loaderd.errors import PlanMismatchError, RunMismatchError

VERSION = 1
RECENT_STEPS = 64  # to which a loader can go back without a state
_TYPES = {"version": int, "run": str, "fingerprint": str, "step": int, "tokens": int}


@dataclass(slots=True)
class LoaderState:
    """The position of a loader in its run.

    Attributes:
        step: The index of the next step to yield, unless it is skipped.
        tokens: The tokens of documents in the yielded steps before it, on all ranks.
        run_id: The id of the run; None while unknown.
        saved_step: The step of the last state that was taken or restored; None before.
        skips: The steps that the job leaves out.
        check_skips: Raises ValueError if another rank skips other steps than these; None without a check.
        recent: The positions before the last yielded steps, and their tokens.
    """

    step: int = 0
    tokens: int = 0
    run_id: str | None = None
    saved_step: int | None = None
    skips: Skips = NO_SKIPS
    check_skips: Callable[[Skips], None] | None = None
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    @property
    def next_step(self) -> int:
        """The index of the step that is yielded next: `step`, or the first one after skipped steps."""
        return self.skips.landing(self.step)

    def identify(self, info: RunInfo, run_id: str | None) -> str | None:
        """Returns the run's id, and records it.

        Args:
            info: The run on the loader's first request. It has no id for a run that had not begun then.
            run_id: The id that was found with the first step; None if unknown.
        """
        self.run_id = self.run_id or info.run_id or run_id
        return self.run_id

    def save(self, info: RunInfo, run_id: str | None) -> dict[str, Any]:
        """Returns the state for a checkpoint.

        The arguments are those of `identify`.
        """
        self.saved_step = self.step
        identity = self.identify(info, run_id)
        state = {
            "version": VERSION,
            "run": info.name,
            "fingerprint": info.fingerprint,
            "step": self.step,
            "skip": [list(r) for r in self.skips.ranges],
            "tokens": self.tokens,
        }
        return state | ({"run_id": identity} if identity else {})

    def advance(self, step: int, tokens: int) -> None:
        """Moves behind a step.

        Args:
            step: The index of the step.
            tokens: Its tokens on all ranks.
        """
        self.recent.append((self.step, self.tokens))
        self.tokens += tokens
        self.step = step + 1

    def move(self, step: int | None) -> None:
        """Moves back to a step that was yielded recently.

        Args:
            step: Its index; None, or that of the next step, does not move.

        Raises:
            ValueError: If it was not yielded recently.
        """
        if step is None or step in (self.step, self.next_step):
            return
        for at, tokens in reversed(self.recent):
            if at == step:
                self.step, self.tokens = at, tokens
                return
        back = f" and can go back to step {min(at for at, _ in self.recent)}" if self.recent else ""
        raise ValueError(
            f"cannot continue at step {step}: this loader is at step {self.next_step}{back}; load the state of a rank "
            "that is there first"
        )

    def load(self, state_dict: Mapping[str, Any], info: RunInfo, skip: Sequence[Sequence[int]] = ()) -> None:
        """Moves to the position of a checkpoint's state.

        Args:
            state_dict: The state.
            info: The run.
            skip: Ranges [begin, end) of steps to leave out in addition to those of the state.

        Raises:
            ValueError: If the state cannot be read, or a range begins before the state or ends after the run.
            RunMismatchError: If the state belongs to another run.
            PlanMismatchError: If the state belongs to another plan.
            RunReplacedError: If the run of the state was deleted and created again.
        """
        step = check_state(state_dict, info)
        if early := [r for r in Skips.checked(skip).ranges if r[0] < step]:
            raise ValueError(
                f"cannot skip the steps {early[0][0]} to {early[0][1] - 1}: the state is at step {step}; skip from "
                "there, or load an earlier state"
            )
        skips = Skips.checked([*state_dict["skip"], *skip])
        self.replace_skips(skips, info)
        self.run_id = state_dict.get("run_id") or None
        self.step = self.saved_step = step
        self.tokens = state_dict["tokens"]
        self.recent.clear()

    def replace_skips(self, skips: Skips, info: RunInfo) -> None:
        """Replaces the skipped steps.

        Raises:
            ValueError: If they end after the run, or another rank skips other steps.
        """
        skips.check_end(info)
        if skips.ranges and self.check_skips is not None:
            self.check_skips(skips)
        self.skips = skips

    def commit_step(self, step: int | None) -> int:
        """Returns the step to commit: the given one, else that of the last state.

        Raises:
            ValueError: If no step is given and no state was taken or restored.
        """
        if step is not None:
            return step
        if self.saved_step is None:
            raise ValueError(
                "cannot commit: no state was taken for a checkpoint; call state_dict() first or give the step"
            )
        return self.saved_step


def check_state(state: Mapping[str, Any], info: RunInfo) -> int:
    """Returns the step of a state that belongs to the run.

    A state from before the run had begun has no id.

    Raises:
        ValueError: If the state cannot be read.
        RunMismatchError: If the state belongs to another run.
        PlanMismatchError: If the state belongs to another plan.
        RunReplacedError: If the run of the state was deleted and created again.
    """
    version = state.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"the loader's state has version {version}, this loaderd reads up to {VERSION}: use the version that saved "
            "it"
        )
    wrong = [k for k, t in _TYPES.items() if type(state.get(k)) is not t]
    run_id = state.get("run_id")
    if run_id is not None and type(run_id) is not str:
        wrong.append("run_id")
    if not isinstance(state.get("skip"), (list, tuple)):
        wrong.append("skip")
    if not wrong:
        wrong = [k for k, least in (("version", 1), ("step", 0), ("tokens", 0)) if state[k] < least]
    if wrong:
        raise ValueError(f"this is not a state of a loader (see {wrong}): {dict(state)}")
    if state["run"] not in (info.name, *info.was):
        raise RunMismatchError(
            f"the checkpoint belongs to the run {state['run']}, the daemon serves {info.name}: connect to that run's "
            "daemon",
            facts={"run": info.name, "wanted": state["run"]},
        )
    if state["fingerprint"] != info.fingerprint:
        raise PlanMismatchError(
            f"the checkpoint belongs to another plan of the run {info.name}: its fingerprint is "
            f"{state['fingerprint']}, the "
            f"daemon's is {info.fingerprint}: start the daemon with the configuration of the checkpoint",
            facts={"fingerprint": info.fingerprint, "wanted": state["fingerprint"]},
        )
    if run_id and info.run_id and run_id != info.run_id:
        raise replaced(info, run_id, "the daemon")
    return int(state["step"])
