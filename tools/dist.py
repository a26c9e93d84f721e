"""Builds a release into a folder: a wheel of the daemon for each platform, the client's wheel and source, and their
SHA-256 sums.

    tools/dist.py FOLDER [PLATFORM...]

A platform is one of linux-amd64, linux-arm64, darwin-arm64 and windows-amd64; all by default. Needs Go, and hatchling
in the running Python. The same source gives the same bytes, with the same Go and hatchling.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / "python"
sys.path.insert(0, str(PYTHON))
from version import git, version  # noqa: E402

# The tags of a wheel: the program links no C library, so it runs with any. Go 1.26 requires macOS 12.
PLATFORMS = {
    "linux-amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin-arm64": "macosx_12_0_arm64",
    "windows-amd64": "win_amd64",
}

NOTICES = "THIRD-PARTY-NOTICES.txt"  # license-files of daemon/pyproject.toml


def program(platform: str, said: str, folder: Path) -> Path:
    """Builds the daemon's program for a platform, without symbols."""
    path = folder / platform / "loaderd"
    stamp = (
        f"-X loaderd/internal/build.release={said} -X loaderd/internal/build.revision={git('rev-parse', 'HEAD') or ''}"
    )
    system, _, processor = platform.partition("-")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": processor}
    command = ["go", "build", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {stamp}", "-o", path, "./cmd/loaderd"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return path


def built(project: Path, kinds: list[str], folder: Path, **environment: str) -> None:
    targets = [x for kind in kinds for x in ("-t", kind)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *targets, "-d", folder],
        cwd=project,
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main(target: str, *platforms: str) -> None:
    if unknown := set(platforms) - PLATFORMS.keys():
        raise SystemExit(
            f"tools/dist.py: unknown platforms {', '.join(sorted(unknown))}: want some of {', '.join(PLATFORMS)}"
        )
    folder, said = Path(target).absolute(), version()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    built(PYTHON, ["wheel", "sdist"], folder, LOADERD_VERSION=said)
    with tempfile.TemporaryDirectory() as temporary:
        project = Path(temporary, "daemon")
        shutil.copytree(PYTHON / "daemon", project, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PYTHON / "version.py", temporary)
        for platform in platforms or PLATFORMS:
            made = program(platform, said, Path(temporary))
            (project / NOTICES).write_bytes(
                subprocess.check_output([sys.executable, ROOT / "tools" / "notices.py", made], cwd=ROOT)
            )
            built(
                project,
                ["wheel"],
                folder,
                LOADERD_VERSION=said,
                LOADERD_PROGRAM=str(made),
                LOADERD_PLATFORM=PLATFORMS[platform],
            )
    files = sorted(folder.iterdir())
    sums = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    for f in files:
        print(f"{f.stat().st_size / 1e6:6.1f} MB  {f.name}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
