"""Writes the licence texts of all modules that are linked into a Go program, and of the vocabularies in it, as their
licences require.

    python3 tools/notices.py PROGRAM > THIRD-PARTY-NOTICES.txt

Equal texts of several modules are written once. A module without a licence file is an error, unless licences.toml has a
decision about it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
LICENCE_FILE = re.compile(r"(?i)(un)?licen[cs]e|copying|notice")
DATA = {"openai/tiktoken vocabularies": ROOT / "tokenizer" / "internal" / "vocab"}


def go(*arguments: str) -> str:
    return subprocess.run(["go", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def objects(text: str) -> list[dict[str, str]]:
    """Returns the consecutive JSON objects of a text."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while text[at:].strip():
        value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        found.append(value)
    return found


def folders(program: str) -> dict[str, Path]:
    """Returns the folders of the modules in a program and of Go's standard library, by names with versions."""
    info = json.loads(go("version", "-m", "-json", str(Path(program).absolute())))
    modules = [d.get("Replace") or d for d in info["Deps"]]
    listed = objects(go("mod", "download", "-json", *(f"{m['Path']}@{m['Version']}" for m in modules)))
    found = {f"{m['Path']} {m['Version']}": Path(m["Dir"]) for m in listed}
    return found | {f"Go {info['GoVersion']}": Path(go("env", "GOROOT").strip())} | DATA


def texts(folder: Path) -> list[str]:
    return [
        p.read_text(errors="replace").strip()
        for p in sorted(folder.iterdir())
        if p.is_file() and LICENCE_FILE.match(p.name)
    ]


def main(program: str) -> None:
    decided = {
        d["component"]: d["licence"] for d in tomllib.loads((ROOT / "tools" / "licences.toml").read_text())["decided"]
    }
    owners: dict[str, list[str]] = {}
    for name, folder in folders(program).items():
        found = texts(folder)
        if not found:
            licence = decided.get("pkg:golang/" + name.replace(" ", "@"))
            if licence is None:
                sys.exit(
                    f"tools/notices.py: {name} has no licence file, and tools/licences.toml has no decision about it"
                )
            found = [f"{licence}: the module has no file of it"]
        for text in found:
            owners.setdefault(text, []).append(name)
    for text, names in owners.items():
        print("\n".join(f"==== {name}" for name in names), text, "", sep="\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
