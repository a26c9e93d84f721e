"""The installed package: the content of the wheel, and that an import needs neither torch nor NATS."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources without a network."""
    folder = tmp_path_factory.mktemp("package")
    for name in ("pyproject.toml", "README.md", "version.py"):
        shutil.copy(PYTHON / name, folder)
    shutil.copytree(PYTHON / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    [built] = (folder / "out").iterdir()
    return built


def test_content(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        metadata = z.read(next(n for n in names if n.endswith("METADATA"))).decode()
    sources = {
        f.relative_to(PYTHON / "src").as_posix() for f in (PYTHON / "src").rglob("*") if f.suffix in (".py", ".typed")
    }
    assert (
        {n for n in names if not n.startswith("loaderd_client-")}
        == sources
        >= {"loaderd/py.typed", "loaderd/__init__.py", "loaderd/torch/__init__.py"}
    )
    assert not [n for n in names if "test" in n]
    needed = {
        line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if line.startswith("Requires-Dist")
    }
    assert {r for r in needed if "extra" not in r} == {"numpy>=1.26", "pyarrow>=15"}
    assert {r.partition(";")[0] for r in needed if "extra" in r} == {"nats-py>=2.16", "torch>=2.3"}
    assert "Requires-Python: >=3.10" in metadata and "# loaderd-client" in metadata


IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
import loaderd
assert loaderd.__file__.startswith(sys.argv[1]), loaderd.__file__
assert all(hasattr(loaderd, name) for name in loaderd.__all__)
heavy = {"torch", "nats", "datasets", "transformers"} & set(sys.modules)
assert not heavy, heavy
print(loaderd.__version__)
"""


def test_the_wheel_imports_without_torch_or_nats(wheel: Path) -> None:
    out = subprocess.run([sys.executable, "-I", "-c", IMPORT, wheel], check=True, capture_output=True, text=True).stdout
    assert wheel.name == f"loaderd_client-{out.strip()}-py3-none-any.whl"
