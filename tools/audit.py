"""Checks the licences and the known vulnerabilities of a release: of the modules in the program and of the packages
that the Python package needs.

    python tools/audit.py --program bin/loaderd --bills bin/loaderd.cdx.json bin/loaderd-python.cdx.json --site
    SITE-PACKAGES [--strict] [--db URL]

Runs in the environment of the group `audit`. The program's bill has licences; those of Python packages are read from
their metadata in SITE-PACKAGES. The exit status is not 0 if licences.toml does not allow a licence or a vulnerability
is known, and with --strict also if no database answers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import tomllib
from license_expression import ExpressionError, get_spdx_licensing

ROOT = Path(__file__).resolve().parents[1]
VULNERABLE = 3  # exit status of govulncheck


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def licences_of_packages(site: str) -> dict[str, list[str]]:
    """Returns the licences of installed packages, by their names."""
    found = {}
    for d in distributions(path=[site]):
        classifiers = [c for c in d.metadata.get_all("Classifier") or [] if c.startswith("License ::")]
        text = d.metadata.get("License-Expression") or d.metadata.get("License") or ""
        found[canonical(d.metadata["Name"])] = [text] if text and "\n" not in text.strip() else classifiers
    return found


def licences_of(component: dict[str, Any]) -> list[str]:
    """Returns the licences of a component in a bill; all of them apply."""
    entries = component.get("licenses") or component.get("evidence", {}).get("licenses") or []
    return [e.get("expression") or e["license"].get("id") or e["license"].get("name", "") for e in entries]


def refused(licence: str, allowed: set[str]) -> set[str]:
    """Returns the licences of an SPDX expression that are not allowed; empty if it can be met."""
    if licence in allowed:
        return set()
    licensing = get_spdx_licensing()
    try:
        tree = licensing.parse(licence, simple=True)
    except ExpressionError:
        return {licence}

    def visit(node: Any) -> set[str]:
        if not getattr(node, "args", ()):
            name = str(getattr(node, "key", node))
            return set() if name.split(" WITH ")[0] in allowed else {name}
        parts = [visit(n) for n in node.args]
        if isinstance(node, licensing.OR) and not all(parts):
            return set()
        return set().union(*parts)

    return visit(tree) if tree is not None else {"(none)"}


def check_licences(bills: list[str], site: str) -> Iterator[str]:
    """Prints the licences of all components, and yields the problems."""
    policy = tomllib.loads((ROOT / "tools" / "licences.toml").read_text())
    allowed, decided = set(policy["allowed"]), {d["component"]: d["licence"] for d in policy["decided"]}
    packages = licences_of_packages(site)
    for bill in bills:
        components = json.loads(Path(bill).read_text()).get("components", [])
        if not components:
            yield f"{bill} lists no components"
        for c in components:
            purl = c.get("purl", "").split("?")[0]
            decision = decided.get(purl) or decided.get(purl.split("@")[0])
            listed = [decision] if decision else licences_of(c) or packages.get(canonical(c["name"]), [])
            print(f"  {c['name']} {c.get('version', '')}: {', '.join(listed)}")
            if not listed:
                yield f"{purl}: no licence is known"
            elif bad := set().union(*(refused(x, allowed) for x in listed)):
                yield f"{purl}: not allowed: {', '.join(sorted(bad))}"


def govulncheck(program: str, database: str) -> tuple[bool | None, str]:
    """Reports whether vulnerabilities of Go modules in the program are known, None without an answer, and returns the
    output.
    """
    command = [
        "go",
        "tool",
        f"-modfile={ROOT / 'tools' / 'go.mod'}",
        "govulncheck",
        "-mode",
        "binary",
        *(["-db", database] if database else []),
        program,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, VULNERABLE):
        return None, done.stderr.strip().splitlines()[-1]
    return done.returncode == VULNERABLE, done.stdout


def pip_audit(bill: str, site: str) -> tuple[bool | None, str]:
    """Does the same for the Python packages of the bill, in the versions that are installed in SITE."""
    names = {canonical(c["name"]) for c in json.loads(Path(bill).read_text())["components"]}
    pins = sorted(
        f"{d.metadata['Name']}=={d.version}"
        for d in distributions(path=[site])
        if canonical(d.metadata["Name"]) in names
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        program = shutil.which("pip-audit", path=str(Path(sys.executable).parent))
        command = [
            program,
            "-r",
            file.name,
            "--disable-pip",
            "--no-deps",
            "--format",
            "json",
            "--progress-spinner",
            "off",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None, (done.stderr.strip().splitlines() or ["no answer"])[-1]
    known = [
        f"{d['name']} {d['version']}: {v['id']}, fixed in {v['fix_versions']}"
        for d in answer
        for v in d.get("vulns", [])
    ]
    skipped = [d["skip_reason"] for d in answer if "skip_reason" in d]
    if not known and (skipped or not answer):
        return None, f"{len(skipped)} of {len(answer)} packages: {skipped[:1]}"
    return bool(known), "\n".join(known)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True)
    p.add_argument("--bills", nargs=2, required=True, metavar=("GO", "PYTHON"))
    p.add_argument("--site", required=True)
    p.add_argument(
        "--db", default="", help="where govulncheck asks: a URL, or file:///FOLDER for a copy of vuln.go.dev"
    )
    p.add_argument("--strict", action="store_true")
    options = p.parse_args()
    problems = list(check_licences(options.bills, options.site))
    for tool, (known, text) in {
        "govulncheck": govulncheck(options.program, options.db),
        "pip-audit": pip_audit(options.bills[1], options.site),
    }.items():
        if known is None:
            print(f"{tool}: not run: {text}")
            problems += [f"{tool}: not run"] if options.strict else []
        elif known:
            print(text)
            problems.append(f"{tool}: vulnerabilities are known")
        else:
            print(f"{tool}: no vulnerability is known")
    if problems:
        sys.exit("tools/audit.py:\n  " + "\n  ".join(problems))


if __name__ == "__main__":
    main()
