"""tools/audit.py and tools/notices.py: licences and known vulnerabilities of what is in a release."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from environments import environment, site_packages

ROOT = Path(__file__).resolve().parents[2]
HARMLESS = {"name": "numpy", "version": "1", "purl": "pkg:pypi/numpy@1", "licenses": [{"license": {"id": "MIT"}}]}


def audit(program: Path, folder: Path, *components: dict, strict: bool = False, db: str = "file:///nowhere") -> tuple[int, str]:
    """The exit status, and what was printed, for a bill of these components."""
    bills = []
    for name, listed in (("go", components), ("python", [HARMLESS])):
        bills.append(folder / f"{name}.json")
        bills[-1].write_text(json.dumps({"components": list(listed)}))
    command = [environment("audit") / "bin" / "python", ROOT / "tools" / "audit.py", "--program", program, "--bills", *bills, "--site", site_packages("test"), "--db", db]
    done = subprocess.run([*map(str, command), *(["--strict"] if strict else [])], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("licences", "problem"),
    [
        ([{"license": {"id": "MIT"}}], None),
        ([{"expression": "GPL-3.0-only OR (Apache-2.0 AND BSD-3-Clause)"}], None),
        ([{"expression": "Apache-2.0 WITH LLVM-exception"}], None),
        ([{"expression": "MIT AND GPL-3.0-only"}], "not allowed: GPL-3.0-only"),
        ([{"license": {"id": "MIT"}}, {"license": {"name": "Somebody's own"}}], "not allowed: Somebody's own"),
        ([], "no licence is known"),
    ],
)
def test_licences_are_compared_with_the_policy(loaderd: Path, tmp_path: Path, licences: list, problem: str | None) -> None:
    status, said = audit(loaderd, tmp_path, {"name": "x", "version": "2", "purl": "pkg:golang/x@2", "licenses": licences})
    assert (status == 0) == (problem is None), said
    assert problem is None or f"pkg:golang/x@2: {problem}" in said


def test_a_database_that_does_not_answer_fails_only_a_strict_audit(loaderd: Path, tmp_path: Path) -> None:
    component = {"name": "x", "version": "2", "purl": "pkg:golang/x@2", "licenses": [{"license": {"id": "MIT"}}]}
    status, said = audit(loaderd, tmp_path, component)
    assert status == 0 and "govulncheck: not run: " in said, said
    status, said = audit(loaderd, tmp_path, component, strict=True)
    assert status == 1 and "govulncheck: not run" in said.splitlines()[-1] + said, said


def test_a_known_vulnerability_fails(loaderd: Path, tmp_path: Path) -> None:
    database = tmp_path / "db"
    entry = {
        "id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z", "summary": "A made-up hole",
        "affected": [{"package": {"name": "github.com/nats-io/nats.go", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
                      "ecosystem_specific": {"imports": [{"path": "github.com/nats-io/nats.go", "symbols": ["Connect"]}]}}],
    }  # fmt: skip
    for path, content in {
        "index/db.json": {"modified": entry["modified"]}, f"ID/{entry['id']}.json": entry,
        "index/vulns.json": [{"id": entry["id"], "modified": entry["modified"]}],
        "index/modules.json": [{"path": "github.com/nats-io/nats.go", "vulns": [{"id": entry["id"], "modified": entry["modified"]}]}],
    }.items():  # fmt: skip
        (database / path).parent.mkdir(parents=True, exist_ok=True)
        (database / path).write_text(json.dumps(content))
    status, said = audit(loaderd, tmp_path, HARMLESS, db=f"file://{database}")
    assert status == 1 and "A made-up hole" in said and "govulncheck: vulnerabilities are known" in said


def test_notices_have_the_licences_of_what_is_linked(loaderd: Path) -> None:
    text = subprocess.run([sys.executable, ROOT / "tools" / "notices.py", loaderd], check=True, stdout=subprocess.PIPE, text=True).stdout
    for part in ("==== github.com/nats-io/nats.go v", "==== Go go1.", "==== openai/tiktoken vocabularies", "Apache License", "Redistribution and use in source and binary forms"):
        assert part in text
