"""Memory that a process keeps, tested in separate processes, whose allocator is changed."""

import os
import platform
import subprocess
import sys

import pytest

from loaderd import keep_memory

FAULTS = """
import resource, sys
from loaderd import keep_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        held = [bytearray(3 << 20) for _ in range(8)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = sys.argv[1] == "keep" and keep_memory()
faults()
print(kept, faults())
"""


def measured(way: str) -> tuple[bool, int]:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, way],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


def test_memory_that_was_freed_serves_again() -> None:
    kept, faults = measured("keep")
    assert kept == (platform.libc_ver()[0] == "glibc")
    if kept:
        assert faults < measured("give back")[1] / 10


def test_a_number_that_the_library_does_not_take() -> None:
    for unused in (-1, 1 << 31):
        with pytest.raises(ValueError, match="unused"):
            keep_memory(unused)
