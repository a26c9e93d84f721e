"""The rows of chat data sets in files, folders and on the Hugging Face Hub, as documents in order."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from loaderd.chats._errors import FileError
from loaderd.chats._files import read_rows
from loaderd.chats._olmo_cache import parts_of
from loaderd.chats._rows import Document, RowOptions, documents_of
from loaderd.producer import InvalidDocumentError

HUB = "hf://datasets/"
_EXTENSIONS = (".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".arrow", ".npy")
_COMPRESSED = (".gz", ".zst", ".bz2")


@dataclass
class Place:
    """Where a document is."""

    file: str = ""
    row: int = 0
    """Rows of JSON lines are lines, from 1; others count from 0."""

    def __str__(self) -> str:
        return f"{self.file}:{self.row}"


@dataclass
class ChatRows:
    """The documents of inputs, in order: an iterable that can begin at any position.

    An invalid row yields an InvalidDocumentError, which names file and row.
    """

    paths: Sequence[str]
    """Files, folders, and data sets of the Hub as hf://datasets/OWNER/NAME[@REVISION]."""
    options: RowOptions = field(default_factory=RowOptions)
    split: str = "train"
    """The split of data sets."""
    config: str | None = None
    """The configuration of data sets of the Hub."""
    first: int = 0
    """The position of the first document."""
    place: Place = field(default_factory=Place)
    """The last document."""

    def skip(self, count: int) -> ChatRows:
        """Returns the documents from a position on."""
        return replace(self, first=self.first + count)

    def __iter__(self) -> Iterator[Any]:
        return islice(self._documents(), self.first, None)

    def _documents(self) -> Iterator[Document | InvalidDocumentError]:
        for path in self.files():
            yield from self._of(path)

    def files(self) -> Iterator[str]:
        """Yields the files of the inputs.

        Raises:
            FileError: If a path does not exist, or a folder has no data.
        """
        for given in self.paths:
            path = Path(given)
            if given.startswith(HUB) or path.is_file():
                yield given
            elif path.is_dir():
                yield from map(str, _in_folder(path, self.split))
            else:
                raise FileError(f"{given}: no such file or folder")

    def _of(self, path: str) -> Iterator[Document | InvalidDocumentError]:
        hub = path.startswith(HUB)
        rows = self._hub_rows(path) if hub else read_rows(path, self.options.columns)
        for number, row, typed in rows:
            self.place.file, self.place.row = path, number
            try:
                if isinstance(row, InvalidDocumentError):
                    raise row
                found = documents_of(row, replace(self.options, typed=True) if typed else self.options)
            except InvalidDocumentError as error:
                yield error
                continue
            for document in found:
                self.place.file, self.place.row = path, number
                yield document

    def _hub_rows(self, path: str) -> Iterator[tuple[int, Any, bool]]:
        if importlib.util.find_spec("datasets") is None:
            raise FileError(f"{path}: data sets of the Hub require the package datasets: pip install datasets")
        name, _, revision = path.removeprefix(HUB).partition("@")
        datasets = importlib.import_module("datasets")
        try:
            rows: Iterable[Any] = datasets.load_dataset(
                name, self.config, split=self.split, revision=revision or None, streaming=True
            )
            yield from ((number, row, True) for number, row in enumerate(rows))
        except Exception as error:  # of many libraries
            raise FileError(f"{path}: {type(error).__name__}: {error}") from error


def _in_folder(folder: Path, split: str) -> Sequence[Path]:
    """Returns the data files of a folder; of a saved data set, those of the split."""
    if (folder / "dataset_dict.json").exists():
        splits = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        if split not in splits:
            raise FileError(f"{folder} has no split {split!r}: want {', '.join(splits)} (--split)")
        folder = folder / split
    if (folder / "state.json").exists():
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        if state.get("_indices_files"):
            raise FileError(f"{folder} is a selection of rows: save it with flatten_indices()")
        return [folder / file["filename"] for file in state["_data_files"]]
    if parts := parts_of(folder):
        return parts
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        if _plain(path.name).endswith(_EXTENSIONS)
    ]
    if not found:
        raise FileError(f"{folder} has no files with {', '.join(_EXTENSIONS)}")
    return found


def _plain(name: str) -> str:
    for extension in _COMPRESSED:
        name = name.removesuffix(extension)
    return name
