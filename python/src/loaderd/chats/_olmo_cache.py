"""Tokenized chats in the files that OLMo-core reads, as open-instruct's convert_sft_data_for_olmocore.py writes them.

A part is `token_ids_part_0000.npy`, token ids without a header, of the smallest unsigned type for the vocabulary. Next
to it are `labels_mask_part_0000.npy`, a byte per token that is 1 for tokens with a loss and otherwise 0, and
`token_ids_part_0000.csv.gz`, a line `start,end` per document. A document that two parts share is two documents, as in
OLMo-core.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from loaderd.chats._errors import FileError

_IDS = "token_ids"
_MASK = "labels_mask"
_UNFINISHED = "_checkpoint.json"
_TYPES = {size: f"<u{size}" for size in (1, 2, 4, 8)}


def parts_of(folder: Path) -> list[Path]:
    """Returns the parts of a cache; none if the folder is not one.

    Raises:
        FileError: If the cache is unfinished.
    """
    parts = [path for path in sorted(folder.glob(f"{_IDS}*.npy")) if mask_of(path) is not None]
    if parts and (folder / _UNFINISHED).exists():
        raise FileError(f"{folder} is unfinished: it has {_UNFINISHED}; resume the conversion that writes it")
    return parts


def mask_of(path: Path) -> Path | None:
    """Returns the label mask of a part; None if the file is not a part."""
    if not path.name.startswith(_IDS) or path.suffix != ".npy":
        return None
    mask = path.with_name(_MASK + path.name.removeprefix(_IDS))
    return mask if mask.is_file() else None


def read_part(path: Path, mask: Path) -> Iterator[dict[str, Any]]:
    """Yields the documents of a part as rows with `input_ids` and `labels_mask`; the files are not read as a whole.

    Raises:
        FileError: If the files do not fit together.
    """
    tokens, size = mask.stat().st_size, path.stat().st_size
    kind = _TYPES.get(size // tokens) if tokens and size % tokens == 0 else None
    if kind is None:
        raise FileError(
            f"{path} has {size:,} bytes, but {mask.name} has {tokens:,} tokens: want 1, 2, 4 or 8 bytes for each"
        )
    ids, losses = np.memmap(path, kind, "r"), np.memmap(mask, np.uint8, "r")
    for start, end in _bounds(path, tokens):
        yield {"input_ids": np.array(ids[start:end]), "labels_mask": np.array(losses[start:end])}


def _bounds(path: Path, tokens: int) -> Iterator[tuple[int, int]]:
    """Yields the boundaries [start, end) of documents, which have all tokens of a part."""
    bounds, at = path.with_suffix(".csv.gz"), 0
    if not bounds.is_file():
        raise FileError(
            f"{path} has no boundaries, {bounds.name}: `loaderd import --end-token` splits documents at a token"
        )
    with gzip.open(bounds, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                start, end = map(int, line.split(",")[:2])
            except ValueError:
                raise FileError(f"{bounds}:{number} is {line[:80]!r}, want start,end") from None
            if start != at or not start < end <= tokens:
                raise FileError(
                    f"{bounds}:{number} is a document of the tokens {start:,} to {end:,}: want one that starts at "
                    f"{at:,} and ends by {tokens:,}"
                )
            yield start, end
            at = end
    if at != tokens:
        raise FileError(f"{bounds} ends at token {at:,}, but {path.name} has {tokens:,} tokens")
