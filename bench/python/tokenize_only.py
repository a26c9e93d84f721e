"""The baseline of the end-to-end benchmark: only tokenizing the same text with widely used libraries, on all cores.

Reads files of Go's library in pieces of at most 16 KiB, as the benchmark does, and prints JSON: MB/s of tiktoken and of
Hugging Face tokenizers for gpt2. Neither packs, shuffles or serves anything.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
from tokenizers import Tokenizer

import reference_tokenizers

PIECE = 16 << 10


def texts(limit: int) -> list[str]:
    root = (
        Path(subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()) / "src"
    )
    out, size = [], 0
    for path in sorted(root.rglob("*.go")):
        data = path.read_bytes()
        for at in range(0, len(data), PIECE):
            out.append(data[at : at + PIECE].decode("utf-8", "replace"))
            size += len(out[-1])
            if size > limit:
                return out
    return out


def speed(encode, documents: list[str]) -> float:
    size = sum(len(d.encode()) for d in documents)
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        encode(documents)
        rounds.append(size / 1e6 / (time.perf_counter() - start))
    return round(statistics.median(rounds), 2)


def main() -> None:
    documents = texts(30_000_000)
    cores = os.cpu_count() or 1
    tik = reference_tokenizers.tiktoken_encoding("gpt2")
    hf = Tokenizer.from_str(json.dumps(reference_tokenizers.builtin_json("gpt2")))
    print(
        json.dumps(
            {
                "text_mb": round(sum(map(len, documents)) / 1e6, 1),
                "cores": cores,
                "tiktoken_mb_per_second": speed(lambda d: tik.encode_ordinary_batch(d, num_threads=cores), documents),
                "huggingface_mb_per_second": speed(
                    lambda d: hf.encode_batch_fast(d, add_special_tokens=False), documents
                ),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
