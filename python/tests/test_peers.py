"""The accounting and the tables of the comparison with other packers, on hand-made rows and figures."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "python" / "peers"))
from documents import Documents
from ledger import Account, Ledger
from table import behind, markdown

ROW = 4
LENGTHS = [3, 4, 1, 6]  # tokens 1-3, 4-7, 8 and 9-14


def account(*rows: list[int]) -> Account:
    """Returns the account of rows that were emitted when all documents had arrived."""
    ledger = Ledger(np.array(LENGTHS), ROW)
    add(ledger, rows, [len(LENGTHS)] * len(rows))
    return ledger.close()


def add(ledger: Ledger, rows: Sequence[list[int]], arrived: list[int]) -> None:
    values = np.array([token for row in rows for token in row], dtype=np.int32)
    ledger.add(values, np.array([len(row) for row in rows]), np.array(arrived))


def test_everything_out_once() -> None:
    a = account([1, 2, 3, 8], [4, 5, 6, 7], [9, 10, 11, 12], [13, 14, 0, 0])
    assert a == Account(
        documents=4, tokens=14, rows=4, slots=16, padding=2, repeated=0, dropped=0, cut=1, cut_short=0, lost=0, oldest=3
    )


def test_short_rows_are_padding_too() -> None:
    assert account([1, 2, 3, 8], [4, 5, 6, 7], [], [9, 10, 11, 12], [13, 14]).padding == 6


def test_padding_on_the_left_and_in_between() -> None:
    a = account([0, 1, 2, 3], [8, 0, 0, 0], [4, 5, 6, 7], [9, 10, 11, 12], [0, 0, 13, 14])
    assert (a.padding, a.cut, a.dropped) == (6, 1, 0)


@pytest.mark.parametrize(
    ("rows", "cut", "cut_short"),
    [
        ([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14]], 2, 1),  # at a row's end
        ([[1, 2, 8, 3], [4, 5, 6, 7], [9, 10, 11, 12], [13, 14]], 2, 1),  # by another document in the same row
        ([[1, 2, 0, 3], [8], [4, 5, 6, 7], [9, 10, 11, 12], [13, 14]], 2, 1),  # by padding
        ([[3, 1, 2, 8], [4, 5, 6, 7], [9, 10, 11, 12], [13, 14]], 2, 1),  # out of order
    ],
)
def test_cut_documents(rows: list[list[int]], cut: int, cut_short: int) -> None:
    a = account(*rows)
    assert (a.cut, a.cut_short, a.dropped, a.repeated) == (cut, cut_short, 0, 0)


def test_documents_next_to_one_another_in_the_input_are_two() -> None:
    ledger = Ledger(np.array([2, 2]), 4)
    add(ledger, [[1, 2, 3, 4]], [2])
    assert ledger.close().cut == 0


def test_truncation_drops_and_cuts() -> None:
    a = account([1, 2, 3, 8], [4, 5, 6, 7], [9, 10, 11, 12])
    assert (a.dropped, a.cut, a.cut_short, a.lost) == (2, 1, 0, 0)


def test_a_document_that_never_came_out() -> None:
    a = account([1, 2, 3, 0], [4, 5, 6, 7])
    assert (a.dropped, a.cut, a.cut_short, a.lost) == (7, 2, 1, 2)


@pytest.mark.parametrize(
    ("again", "repeated"),
    [([4, 5, 6, 7], 4), ([11, 12], 2), ([12, 13], 2)],
)
def test_repeated_tokens(again: list[int], repeated: int) -> None:
    a = account([1, 2, 3, 8], [4, 5, 6, 7], [9, 10, 11, 12], [13, 14], again)
    assert (a.repeated, a.dropped, a.cut) == (repeated, 0, 1)
    assert a.tokens == a.slots - a.padding - a.repeated + a.dropped


def test_the_age_is_that_of_the_oldest_document_of_a_row() -> None:
    ledger = Ledger(np.array(LENGTHS), ROW)
    add(ledger, [[4, 5, 6, 7], [0, 1, 2, 3], [8]], [2, 2, 4])
    assert ledger.close().oldest == 1
    add(ledger, [[9, 10, 11, 12], [1, 2, 3, 8]], [4, 3])
    assert ledger.close().oldest == 2


@pytest.mark.parametrize(
    ("values", "sizes", "arrived", "says"),
    [
        ([1, 2, 3, 4, 5], [5], 4, "a row of 5 tokens, longer than 4"),
        ([1, 2, 3], [2], 4, "rows of 2 tokens in total, but 3 tokens"),
        ([15], [1], 4, "want 1 to 14"),
        ([-1], [1], 4, "want 1 to 14"),
        ([1, 2, 3, 8], [4], 2, "contains document 3 before it arrived"),
    ],
)
def test_impossible_rows(values: list[int], sizes: list[int], arrived: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Ledger(np.array(LENGTHS), ROW).add(np.array(values), np.array(sizes), np.array([arrived]))


def test_nothing_came_out() -> None:
    a = Ledger(np.array(LENGTHS), ROW).close()
    assert (a.rows, a.slots, a.dropped, a.cut, a.lost) == (0, 0, 14, 4, 4)


def test_documents_arrive_in_order_and_in_pieces() -> None:
    documents = Documents(np.array(LENGTHS))
    seen = [(documents.arrived, piece.tolist()) for piece in documents.arrive(ROW)]
    assert seen == [(1, [1, 2, 3]), (2, [4, 5, 6, 7]), (3, [8]), (4, [9, 10, 11, 12]), (4, [13, 14])]
    assert documents.pieces(ROW).tolist() == [0, 3, 7, 8, 12, 14]


def figures(name: str, **other: object) -> dict[str, object]:
    """Returns a result of 1,000 documents that is best in every figure."""
    return {
        "name": name,
        "package": "loaderd" if name.startswith("loaderd") else f"{name} 1.0",
        "online": "yes",
        "documents": 1000,
        "tokens": 90_000,
        "slots": 100_000,
        "padding": 10,
        "cut": 100,
        "cut_short": 0,
        "lost": 0,
        "dropped": 0,
        "repeated": 0,
        "oldest": 50,
        "memory": 5e6,
        "process": 2e7,
        "moved": 4e5,
        "alone": 8e6,
        **other,
    }


def test_where_one_packer_is_behind_another() -> None:
    assert behind(figures("loaderd"), figures("peer")) == []
    slow = figures(
        "loaderd", padding=11, memory=6e6, oldest=51, moved=3e5, alone=7e6, cut_short=1, dropped=1, repeated=1
    )
    assert behind(slow, figures("peer")) == [
        "documents/s with tokens",
        "documents/s, lengths alone",
        "padding",
        "cut though they fit a row",
        "dropped",
        "repeated",
        "memory",
        "age",
    ]
    alone = figures("peer")
    del alone["alone"]
    assert "age" not in behind(slow, figures("offline", documents=20, oldest=19))
    assert "documents/s, lengths alone" not in behind(slow, alone)


def test_tables() -> None:
    offline = figures("offline", oldest=999, online="no", memory=9e6)
    small = figures("small", memory=1e6, padding=2000, moved=12_345.0, dropped=18_000)
    text = markdown([figures("loaderd `a`", oldest=700), figures("loaderd `b`", padding=20), offline, small])
    assert text.splitlines() == [
        "| packer | documents/s with tokens | documents/s, lengths alone | padding | documents cut | cut though they "
        "fit a row | tokens dropped "
        "| tokens repeated | memory added | memory of the process | largest age | online |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| loaderd `a` | 400k | 8.00M | 0.01 % | 10.0 % | 0 | 0 | 0 | 5.0 MB | 20 MB | 700 | yes |",
        "| loaderd `b` | 400k | 8.00M | 0.02 % | 10.0 % | 0 | 0 | 0 | 5.0 MB | 20 MB | 50 | yes |",
        "| offline | 400k | 8.00M | 0.01 % | 10.0 % | 0 | 0 | 0 | 9.0 MB | 20 MB | all | no |",
        "| small | 12k | 8.00M | 2 % | 10.0 % | 0 | 20.0 % | 0 | 1.0 MB | 20 MB | 50 | yes |",
        "",
        "| packer | nearest setting of loaderd | padding: packer, loaderd | largest age: packer, loaderd | "
        "documents/s with tokens | loaderd is behind in |",
        "| --- | --- | --- | --- | --- | --- |",
        "| offline | `a` | 0.01 %, 0.01 % | all, 700 | 1.0 times | nothing |",
        "| small | `b` | 2 %, 0.02 % | 50, 50 | 32 times | memory |",
        "",
        "Versions: offline 1.0, small 1.0.",
    ]
