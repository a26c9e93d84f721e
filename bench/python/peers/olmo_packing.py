"""OLMo-core: `PackingInstanceSource` over documents in memory, and `InstancePacker` on their lengths alone."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from documents import Documents
from packers import Packer, Ready, Rows

forked: list[Any] = []  # the sources, inherited by worker processes instead of copies of all tokens


def latest() -> Any:
    return forked[-1]


def prepare(documents: Documents, row: int, *, strategy: str) -> Ready:
    from olmo_core.data.composable.packing_instance_source import PackingInstanceSource
    from olmo_core.data.composable.token_source import DocumentSource
    from olmo_core.data.tokenizer import TokenizerConfig
    from olmo_core.data.types import LongDocStrategy
    from olmo_core.data.utils import InstancePacker

    class Source(DocumentSource):
        fingerprint = "documents"
        num_tokens = int(documents.offsets[-1])

        def children(self) -> list:
            return []

        def get_token_range(self, start_idx: int, end_idx: int) -> dict[str, np.ndarray]:
            return {"input_ids": documents.tokens[start_idx:end_idx]}

        def get_document_offsets(self) -> Iterator[tuple[int, int]]:
            bounds = documents.offsets.tolist()
            return itertools.pairwise(bounds)

        def __reduce__(self) -> tuple[Any, ...]:
            return latest, ()

    def rows() -> Iterator[Rows]:
        documents.arrived = len(documents)
        size = np.array([row])
        with tempfile.TemporaryDirectory() as folder:
            forked.append(Source(work_dir=folder))
            packed = PackingInstanceSource(
                latest(),
                sequence_length=row,
                work_dir=folder,
                long_doc_strategy=LongDocStrategy[strategy],
                tokenizer=TokenizerConfig(vocab_size=1 << 31, eos_token_id=0, pad_token_id=0),
            )
            for i in range(len(packed)):
                yield packed[i]["input_ids"], size

    def alone() -> object:
        if strategy == "fragment":
            offsets = documents.pieces(row)
            indices = np.stack([offsets[:-1], offsets[1:]], axis=1)
        else:
            starts = documents.offsets[:-1]
            indices = np.stack([starts, starts + np.minimum(documents.lengths, row)], axis=1)
        return InstancePacker(row).pack_documents(indices.astype(np.uint64))

    return Ready(rows, alone=alone)


PACKERS = [
    Packer("OLMo-core `truncate` (default)", "ai2-olmo-core", "no", partial(prepare, strategy="truncate")),
    Packer("OLMo-core `fragment`", "ai2-olmo-core", "no", partial(prepare, strategy="fragment")),
]
