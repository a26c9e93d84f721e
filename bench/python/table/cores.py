"""The dependence on the number of cores, by a simulation of contention on the available ones."""

from __future__ import annotations

from collections.abc import Iterator

from bench import Bench
from measures import Measure


def cores(bench: Bench) -> Iterator[Measure]:
    """CPU time per unit of work by many goroutines, compared with that of one."""
    size = ["-bytes", 100_000, "-repeats", 1] if bench.moment else []
    for r in bench.ask([bench.program("cores"), "-json", *size], cores=2):
        what = f"{r['workers']} {'readers' if r['work'] == 'serving' else 'workers'}"
        blocked = f"all goroutines together waited for locks for {100 * r['blocked_share']:.2g} % of their time"
        yield Measure(
            f"{r['work']}, CPU a MB, {what}",
            r["cpu_ms_per_mb"],
            "ms",
            r["baseline_cpu_ms_per_mb"],
            "one",
            better="lower",
            note=blocked,
        )
