"""Pages of the docs do what they say, from the first block to the last."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tideline
from tideline.testing.followed_page import Terminal, follow
from tideline.testing.newcomer_clone import make_clone

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs"
TASKS = sorted((DOCS / "tasks").glob("*.md"))

EXPECTED = {
    "erasing.md": "After: 0 rows on disk",
    "publishing.md": "Dropped what was published",
    "streams.md": "UPDATE_BEFORE",
}
"""What a page is to print, of those that begin in an empty folder."""


class Followed:
    """What the blocks of a page printed, and the table that they leave."""

    def __init__(self, page: Path, terminal: Terminal) -> None:
        self._printed = follow(page, terminal)
        self.folder = terminal.folder

    def said(self, code: str) -> str:
        """What the one block printed in which `code` is."""
        (found,) = [printed for block, printed in self._printed if code in block.code]
        return found

    def rows(self) -> pa.Table:
        return rows_of(self.folder / "out" / "flights" / "table")


@pytest.fixture
def followed(flights: Path, tmp_path: Path) -> Iterator[Callable[[Path], Followed]]:
    terminals = []

    def followed(page: Path) -> Followed:
        shutil.copytree(DOCS.parent / "examples", tmp_path / "examples")
        terminals.append(Terminal(tmp_path, make_clone(tmp_path, flights)))
        return Followed(page, terminals[-1])

    yield followed
    for terminal in terminals:
        terminal.close()


def rows_of(table: Path) -> pa.Table:
    names = ["carrier", "flight", "origin", "scheduled_departure", "tailnum", "arr_delay"]
    rows = tideline.open(str(table)).to_arrow(names)
    return rows.sort_by([(name, "ascending") for name in names])


def test_the_first_hour(flights: Path, followed: Callable[[Path], Followed]) -> None:
    before = rows_of(flights)
    done = followed(DOCS / "first-hour.md")

    most = before.group_by("carrier").aggregate([([], "count_all"), ("arr_delay", "mean")])
    most = most.sort_by([("count_all", "descending")]).slice(0, 4)
    for carrier, count, delay in zip(*(column.to_pylist() for column in most.columns), strict=True):
        for reader in ("iceberg_scan", "sort("):
            (line,) = [name for name in done.said(reader).splitlines() if f" {carrier} " in name]
            words = line.replace("│", " ").replace("┆", " ").split()
            assert words[:2] == [carrier, str(count)], reader
            assert float(words[2]) == pytest.approx(delay, abs=0.006), reader
    assert "HA      51    JFK  HNL       1272" in done.said("to_pandas())")
    for origin in ("EWR", "JFK", "LGA"):
        assert origin in done.said("tideline sql")
    assert done.said("CREATE TEMPORARY VIEW").count("|") == 3 * 5

    changes = [line for line in done.said("cat follow.log").splitlines() if "UA 1545" in line]
    numbers = {line.partition(":")[0]: line for line in changes}
    assert len(numbers) == 2, changes
    assert [line.partition(": ")[2] for line in dict.fromkeys(changes)] == [
        "UPDATE_BEFORE UA 1545 11",
        "UPDATE_AFTER UA 1545 71",
        "UPDATE_BEFORE UA 1545 71",
        "UPDATE_AFTER UA 1545 131",
    ]

    in_january = done.said("arr_delay=pl.lit")
    assert in_january == f"{before.num_rows:,} rows overwritten\n"
    assert "undo 1 instant" in done.said("--to INSTANT")
    erased = done.said("--prove")
    assert "After: 0 rows on disk in 0 files" in erased
    kept = before.filter(pc.fill_null(pc.not_equal(before["tailnum"], "N14228"), True))
    assert done.rows().equals(kept)


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.stem)
def test_a_task(page: Path, followed: Callable[[Path], Followed]) -> None:
    followed(page)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_page_that_makes_its_own_tables(name: str, tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    variables = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    terminal = Terminal(tmp_path, variables)
    try:
        done = dict(follow(DOCS / name, terminal))
    finally:
        terminal.close()
    assert len(done) >= 5
    said = "\n".join(done.values())
    assert EXPECTED[name] in said


def test_a_load_is_undone(flights: Path, followed: Callable[[Path], Followed]) -> None:
    done = followed(DOCS / "tasks" / "undo-a-bad-load.md")
    assert done.rows().equals(rows_of(flights))
