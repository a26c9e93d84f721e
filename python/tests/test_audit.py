"""tools/audit.py and tools/notices.py: licences and known vulnerabilities of a release's components."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from environments import environment, site_packages

ROOT = Path(__file__).resolve().parents[2]
HARMLESS = {"name": "numpy", "version": "1", "purl": "pkg:pypi/numpy@1", "licenses": [{"license": {"id": "MIT"}}]}


def audit(
    program: Path, folder: Path, *components: dict, strict: bool = False, db: str = "file:///nowhere"
) -> tuple[int, str]:
    """Returns the exit status and the output for a bill of these components."""
    bills = []
    for name, listed in (("go", components), ("python", [HARMLESS])):
        bills.append(folder / f"{name}.json")
        bills[-1].write_text(json.dumps({"components": list(listed)}))
    command = [
        environment("audit") / "bin" / "python",
        ROOT / "tools" / "audit.py",
        "--program",
        program,
        "--bills",
        *bills,
        "--site",
        site_packages("test"),
        "--db",
        db,
    ]
    done = subprocess.run([*map(str, command), *(["--strict"] if strict else [])], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


CASES: dict[str, tuple[list[dict[str, object]], str]] = {
    "permissive": ([{"license": {"id": "MIT"}}], ""),
    "choice": ([{"expression": "GPL-3.0-only OR (Apache-2.0 AND BSD-3-Clause)"}], ""),
    "exception": ([{"expression": "Apache-2.0 WITH LLVM-exception"}], ""),
    "both": ([{"expression": "MIT AND GPL-3.0-only"}], "not allowed: GPL-3.0-only"),
    "own": ([{"license": {"id": "MIT"}}, {"license": {"name": "Somebody's own"}}], "not allowed: Somebody's own"),
    "none": ([], "no licence is known"),
}


@pytest.mark.everything
def test_licences_are_compared_with_the_policy(loaderd: Path, tmp_path: Path) -> None:
    components = [
        {"name": name, "version": "2", "purl": f"pkg:golang/{name}@2", "licenses": licences}
        for name, (licences, _) in CASES.items()
    ]
    status, said = audit(loaderd, tmp_path, *components)
    assert status == 1
    problems = [line.strip() for line in said.partition("tools/audit.py:")[2].splitlines() if line.strip()]
    assert problems == [f"pkg:golang/{name}@2: {problem}" for name, (_, problem) in CASES.items() if problem]


@pytest.mark.everything
def test_a_database_that_does_not_answer_fails_only_a_strict_audit(loaderd: Path, tmp_path: Path) -> None:
    component = {"name": "x", "version": "2", "purl": "pkg:golang/x@2", "licenses": [{"license": {"id": "MIT"}}]}
    status, said = audit(loaderd, tmp_path, component)
    assert status == 0 and "govulncheck: not run: " in said, said
    status, said = audit(loaderd, tmp_path, component, strict=True)
    assert status == 1 and "govulncheck: not run" in said.splitlines()[-1] + said, said


@pytest.mark.everything
@pytest.mark.parametrize(("fixed", "known"), [("4.0.0", True), ("1.0.0", False)])
def test_a_known_vulnerability_fails(loaderd: Path, tmp_path: Path, fixed: str, known: bool) -> None:
    name, module, database, time = "GO-2026-9999", "go.yaml.in/yaml/v3", tmp_path / "db", "2026-01-01T00:00:00Z"
    affected = {
        "package": {"name": module, "ecosystem": "Go"},
        "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": fixed}]}],
        "ecosystem_specific": {"imports": [{"path": module, "symbols": ["Decoder.Decode"]}]},
    }
    entry = {
        "schema_version": "1.3.1",
        "id": name,
        "modified": time,
        "published": time,
        "summary": "A made-up hole",
        "affected": [affected],
    }
    for path, content in (
        ("index/db.json", {"modified": time}),
        ("index/modules.json", [{"path": module, "vulns": [{"id": name, "modified": time, "fixed": fixed}]}]),
        ("index/vulns.json", [{"id": name, "modified": time}]),
        (f"ID/{name}.json", entry | {"database_specific": {"url": "https://vuln.example"}}),
    ):
        (database / path).parent.mkdir(parents=True, exist_ok=True)
        (database / path).write_text(json.dumps(content))
    status, said = audit(loaderd, tmp_path, HARMLESS, db=f"file://{database}")
    assert (status == 1) == known, said
    assert ("A made-up hole" in said and "govulncheck: vulnerabilities are known" in said) == known, said
    assert ("govulncheck: no vulnerability is known" in said) != known, said


def test_notices_have_the_licences_of_what_is_linked(loaderd: Path) -> None:
    text = subprocess.run(
        [sys.executable, ROOT / "tools" / "notices.py", loaderd], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for part in (
        "==== github.com/nats-io/nats.go v",
        "==== Go go1.",
        "==== openai/tiktoken vocabularies",
        "Apache License",
        "Redistribution and use in source and binary forms",
    ):
        assert part in text
