"""The released packages, installed by pip into a separate environment and used there, without Go or the sources."""

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]
ROOT = PYTHON.parent
LARGEST_WHEEL = 32_000_000
LARGEST_PROGRAM = 80_000_000

USE = """
import importlib.metadata, subprocess, time
began = time.monotonic()
import loaderd
assert loaderd.__version__ == importlib.metadata.version("loaderd")
said = subprocess.run(["loaderd", "version"], check=True, capture_output=True, text=True).stdout
assert loaderd.__version__ in said and "unknown" not in said, said
with loaderd.serve(["some text", "another text"], settings={"steps.rows": 1, "packing.buckets": 32}) as url:
    with loaderd.Client(url) as client:
        assert next(client).input_ids.shape == (1, 32)
print(f"{time.monotonic() - began:.1f} s to the first batch")
try:
    import loaderd.torch
except ModuleNotFoundError as error:
    assert "pip install" in str(error)
else:
    raise AssertionError("torch is there")
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, and the daemon for this machine."""
    here = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}[platform.machine()]
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / "tools" / "dist.py", folder, here], check=True)
    return folder


@pytest.mark.everything
def test_it_is_installed_and_used(released: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": f"{tmp_path / 'env' / 'bin'}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    for name in (
        "PIP_INDEX_URL",
        "PIP_CONFIG_FILE",
        "PIP_CERT",
        "SSL_CERT_FILE",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        if name in os.environ:  # the machine determines how packages are downloaded
            environment[name] = os.environ[name]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--only-binary=:all:",
        "--find-links",
        released,
        "--pre",
    ]
    subprocess.run(
        [*pip, "loaderd"], env=environment | {"PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip")}, check=True
    )
    out = subprocess.run(
        [python, "-I", "-c", USE], env=environment, cwd=home, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert "to the first batch" in out
    print(out)


@pytest.mark.everything
def test_a_wheel_holds_the_program_alone(released: Path) -> None:
    [wheel] = released.glob("loaderd-*.whl")
    with zipfile.ZipFile(wheel) as z:
        names = [name.partition("/")[2] for name in z.namelist()]
        metadata = z.read(next(n for n in z.namelist() if n.endswith("METADATA"))).decode()
    assert {"scripts/loaderd", "licenses/THIRD-PARTY-NOTICES.txt"} <= set(names) and not [
        n for n in names if n.endswith(".py")
    ]
    version = wheel.name.split("-")[1]
    assert f"Requires-Dist: loaderd-client[publish]=={version}" in metadata
    assert (released / f"loaderd_client-{version}-py3-none-any.whl").exists()
    sums = (released / "SHA256SUMS").read_text()
    assert wheel.name in sums and f"loaderd_client-{version}.tar.gz" in sums


@pytest.mark.everything
@pytest.mark.parametrize(
    ("target", "tag", "begins"),
    [
        ("linux-amd64", "musllinux_1_1_x86_64", b"\x7fELF"),
        ("linux-arm64", "musllinux_1_1_aarch64", b"\x7fELF"),
        ("darwin-arm64", "macosx_12_0_arm64", b"\xcf\xfa\xed\xfe"),
        ("windows-amd64", "win_amd64", b"MZ"),
    ],
)
def test_Wheel_SizeOfEachPlatform(target: str, tag: str, begins: bytes, tmp_path: Path) -> None:
    """The wheel of a platform has its program, and both are within their size limits. Programs of other platforms
    are not run here."""
    print(
        subprocess.run(
            [sys.executable, ROOT / "tools" / "dist.py", tmp_path / "dist", target],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    )
    [wheel] = tmp_path.glob(f"dist/loaderd-*{tag}*.whl")
    assert wheel.stat().st_size < LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as z:
        [program] = [n for n in z.namelist() if "/scripts/loaderd" in n]
        assert z.read(program).startswith(begins)
        assert z.getinfo(program).file_size < LARGEST_PROGRAM


@pytest.mark.everything
def test_the_source_makes_the_same_wheel(released: Path, tmp_path: Path) -> None:
    [source] = released.glob("*.tar.gz")
    [client] = released.glob("loaderd_client-*.whl")
    subprocess.run(["tar", "-xf", source, "-C", tmp_path], check=True)
    [folder] = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "out"], cwd=folder, check=True
    )
    assert (tmp_path / "out" / client.name).read_bytes() == client.read_bytes()


@pytest.mark.parametrize(
    ("described", "want"),
    [
        ("v1.2.3-0-gabc", "1.2.3"),
        ("v1.2.3-5-gabc", "1.2.4.dev5+gREV"),
        ("v1.2.0rc1-2-gabc", "1.2.0.dev2+gREV"),
        (None, "0.0.0.dev7+gREV"),
    ],
)
def test_versions_come_from_tags(described: str | None, want: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PYTHON))
    monkeypatch.delenv("LOADERD_VERSION", raising=False)
    import version

    answers = {"rev-parse": "REV", "describe": described, "rev-list": "7"}
    monkeypatch.setattr(version, "git", lambda what, *_: answers[what])
    assert version.version() == want
    monkeypatch.setenv("LOADERD_VERSION", "9.9")
    assert version.version() == "9.9"


def test_a_source_without_history_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PYTHON))
    monkeypatch.delenv("LOADERD_VERSION", raising=False)
    import version

    monkeypatch.setattr(version, "git", lambda *_: None)
    assert version.version() == "0.0.0"
