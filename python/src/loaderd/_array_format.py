"""Batches of numpy arrays with a value per token, for loaders that place them on devices."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loaderd._step import Step

log = logging.getLogger("loaderd")

FIELDS = ("input_ids", "labels", "position_ids", "segment_ids")
OPTIONAL_FIELDS = ("sources", "loss_weights")


class WeightWarning:
    """Warns once of loss weights that batches omit."""

    def __init__(self) -> None:
        self._warned = False

    def check(self, step: Step) -> None:
        """Logs a warning if the step is the first with a weight.

        Args:
            step: A step whose weights the batch omits.
        """
        if step.weighted and not self._warned:
            self._warned = True
            log.warning(
                'step %d has documents with a loss weight, but the batches omit it: add "loss_weights" to the fields '
                "of StepLoader and multiply the losses by it",
                step.index,
            )


def check_content(known: Sequence[str], fields: Sequence[str], labels: str, columns: Sequence[str]) -> None:
    """Checks what a caller requests for batches.

    Args:
        known: The names of all fields.
        fields: The requested fields.
        labels: The form of the labels.
        columns: The requested columns of documents.

    Raises:
        ValueError: If an argument is invalid.
    """
    if isinstance(fields, str) or isinstance(columns, str):
        raise ValueError(f"fields {fields!r}, columns {columns!r}: want sequences of names")
    if unknown := [f for f in fields if f not in known]:
        raise ValueError(f"unknown fields {unknown}, want some of {list(known)}")
    if taken := [c for c in columns if c in known]:
        raise ValueError(f"columns {taken}: these are fields, not columns of documents")
    if labels not in ("unshifted", "shifted"):
        raise ValueError(f'labels {labels!r}: want "unshifted" (the model shifts) or "shifted" (the loader shifts)')


@dataclass(frozen=True, slots=True)
class ArrayFormat:
    """The content of batches."""

    fields: tuple[str, ...]
    labels: Literal["unshifted", "shifted"]
    columns: tuple[str, ...]
    _weights: WeightWarning = field(default_factory=WeightWarning)

    @classmethod
    def checked(
        cls, fields: Sequence[str], labels: Literal["unshifted", "shifted"], columns: Sequence[str]
    ) -> ArrayFormat:
        """Returns the format for a caller's arguments.

        Raises:
            ValueError: If an argument is invalid.
        """
        check_content(FIELDS + OPTIONAL_FIELDS, fields, labels, columns)
        return cls(tuple(fields), labels, tuple(columns))

    @property
    def client_options(self) -> dict[str, Any]:
        """The arguments of `loaderd.Client` that request the values."""
        return {"sources": "sources" in self.fields, "weights": "loss_weights" in self.fields, "columns": self.columns}

    def arrays(self, step: Step) -> dict[str, npt.NDArray[Any]]:
        """Returns the arrays of a step, [rows, L] each.

        Raises:
            ValueError: If the run has no sources, or a column has a value per document.
        """
        if "loss_weights" not in self.fields:
            self._weights.check(step)
        batch = {name: self._array(step, name) for name in self.fields}
        for name in self.columns:
            if name in step.parts[0].values:
                raise ValueError(f"column {name!r} has a value per document, not per token: no array can hold it")
            batch[name] = step.column(name)
        return batch

    def _array(self, step: Step, name: str) -> npt.NDArray[Any]:
        if name == "input_ids":
            return step.input_ids.astype(np.int32, copy=False)
        if name == "labels":
            return step.labels(self.labels)
        if name == "position_ids":
            return step.position_ids()
        if name == "segment_ids":
            return step.segment_ids().astype(np.int32)
        if name == "sources":
            return step.source_ids()
        weights = step.loss_weights()
        if self.labels == "shifted":
            weights = np.pad(weights[:, 1:], ((0, 0), (0, 1)))
        return weights
