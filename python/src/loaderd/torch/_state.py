"""The state of a loader in a trainer's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loaderd.errors import PlanMismatchError, RunMismatchError
from loaderd._retry import replaced
from loaderd._wire import RunInfo

VERSION = 1
_TYPES = {"version": int, "run": str, "fingerprint": str, "step": int}


def make_state(info: RunInfo, step: int, run_id: str | None = None) -> dict[str, Any]:
    """Returns the state of a loader that yields `step` next, of the run with this id; None before the run has begun."""
    state = {"version": VERSION, "run": info.name, "fingerprint": info.fingerprint, "step": step}
    return state | ({"run_id": run_id} if run_id else {})


def check_state(state: Mapping[str, Any], info: RunInfo) -> int:
    """Returns the step of a state that belongs to the run. Otherwise raises ValueError, RunMismatchError, PlanMismatchError or
    RunReplacedError. A state from before the run had begun has no id."""
    version = state.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"the loader's state has version {version}, this loaderd reads up to {VERSION}: use the version that saved it"
        )
    wrong = [k for k, t in _TYPES.items() if type(state.get(k)) is not t]
    run_id = state.get("run_id")
    if run_id is not None and type(run_id) is not str:
        wrong.append("run_id")
    if wrong or state["version"] < 1 or state["step"] < 0:
        raise ValueError(f"this is not a state of a StepLoader (see {wrong or ['version', 'step']}): {dict(state)}")
    if state["run"] not in (info.name, *info.was):
        raise RunMismatchError(
            f"the checkpoint belongs to the run {state['run']}, the daemon serves {info.name}: connect to that run's daemon",
            facts={"run": info.name, "wanted": state["run"]},
        )
    if state["fingerprint"] != info.fingerprint:
        raise PlanMismatchError(
            f"the checkpoint belongs to another plan of the run {info.name}: its fingerprint is {state['fingerprint']}, the "
            f"daemon's is {info.fingerprint}: start the daemon with the configuration of the checkpoint",
            facts={"fingerprint": info.fingerprint, "wanted": state["fingerprint"]},
        )
    if run_id and info.run_id and run_id != info.run_id:
        raise replaced(info, run_id, "the daemon")
    return int(state["step"])
