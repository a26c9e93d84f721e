"""The table of `make bench`: ratios, what counts as a regression, and how a run is recorded."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "python" / "table"))
import compare
import render
from measures import Measure, combine


def faster(value: float, baseline: float | None = 100.0, name: str = "speed") -> Measure:
    return Measure(name, value, "MB/s", baseline, "peer 1.0")


def memory(value: float, baseline: float = 100.0) -> Measure:
    return Measure("memory", value, "MB", baseline, "client", better="lower")


@pytest.mark.parametrize(
    ("old", "new", "is_worse"),
    [
        (faster(100), faster(91), False),
        (faster(100), faster(90), True),
        (faster(33), faster(29.7), True),  # exactly a tenth, regardless of rounding in the division
        (faster(100), faster(180), False),
        (faster(100), faster(90, baseline=90), False),  # the machine was slower, the ratio is unchanged
        (faster(100), faster(100, baseline=112), True),  # the peer is faster now
        (memory(30), memory(32.9), False),
        (memory(30), memory(33), True),
        (memory(30), memory(10), False),
    ],
)
def test_worse_by_a_tenth(old: Measure, new: Measure, is_worse: bool) -> None:
    assert bool(compare.worse(compare.changes([old], [new]))) is is_worse


def test_the_worst_comes_first() -> None:
    old = [faster(100, name=n) for n in "abc"]
    new = [faster(80, name="a"), faster(99, name="b"), faster(50, name="c")]
    assert [c.new.name for c in compare.worse(compare.changes(old, new))] == ["c", "a"]


def test_only_what_has_a_ratio_in_both_is_compared() -> None:
    old = [faster(100), faster(100, name="left out"), faster(100, baseline=None, name="without a peer")]
    new = [faster(100), faster(1, name="new"), faster(1, name="without a peer"), Measure("left out", note="failed")]
    assert [c.new.name for c in compare.changes(old, new)] == ["speed"]
    assert compare.gone(old, new) == ["left out"]


def test_ratios_of_nothing() -> None:
    assert faster(50).ratio == 0.5
    assert [m.ratio for m in (faster(50, baseline=None), faster(50, baseline=0), Measure("missing"))] == [None] * 3


def run_of(*measures: Measure) -> render.Run:
    about = {
        "machine": "2 cores",
        "date": "2026-11-24",
        "revision": "abc",
        "runs": 1,
        "seconds": 12.6,
        "moment": False,
        "left_out": ["flight"],
    }
    return about | {"measures": [m.json() for m in measures]}


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reads runs from their files, and checks exit status and output."""
    for name, measure in (("old", faster(100)), ("same", faster(95)), ("worse", faster(60))):
        (tmp_path / name).write_text(json.dumps(run_of(measure, memory(30))))
    assert compare.main(tmp_path / "old", tmp_path / "same") == 0
    assert capsys.readouterr().out == "0 of 2 ratios are worse by a tenth or more\n"
    assert compare.main(tmp_path / "old", tmp_path / "worse") == 1
    assert capsys.readouterr().out.splitlines()[0] == "speed: 1 -> 0.6 of peer 1.0, worse by 40 %"


def test_page() -> None:
    page = render.page(run_of(faster(1234.5), Measure("gone", better="lower", note="cannot be installed")))
    assert "2 cores. 2026-11-24, revision abc, runs: 1, 13 s." in page
    assert "| speed | 1,234 MB/s | 100 peer 1.0 | 12.3 | - | higher |" in page
    assert "| gone | - | - | - | - | lower |" in page
    assert page.endswith("\n- gone: cannot be installed\n- Not in this run: flight.\n")


def test_median_of_several_runs() -> None:
    missing = Measure("speed", note="failed")
    runs = [
        [faster(120), memory(30), Measure("gone", note="first")],
        [faster(110, baseline=50), memory(20), Measure("gone", note="second")],
        [faster(90), missing, memory(40)],
    ]
    combined = combine(runs)
    assert [(m.name, m.value, m.spread) for m in combined] == [
        ("speed", 120, (0.9, 2.2)),
        ("memory", 30, (0.2, 0.4)),
        ("gone", None, None),
    ]
    assert combined[2].note == "second"
    assert combine(runs[:1]) == runs[0]
    assert [Measure.of(json.loads(json.dumps(m.json()))) for m in combined] == combined
    assert "| speed | 120 MB/s | 100 peer 1.0 | 1.2 | 0.9 to 2.2 | higher |" in render.page(run_of(*combined))


def test_a_moment_says_so() -> None:
    assert render.page(run_of(faster(50)) | {"moment": True}).count("the figures mean nothing") == 1


def test_text_is_aligned() -> None:
    head, line = render.text(run_of(faster(50))).splitlines()
    assert head.index("value") == line.index("50 MB/s") and head.index("ratio") == line.index("0.5")


def test_the_kept_page_is_that_of_the_kept_run() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs" / "results"
    assert (folder / "bench.md").read_text() == render.page(json.loads((folder / "bench.json").read_text()))
