"""Changes of version that die before or after any write: one version or the other, whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError, StorageUnavailableError
from tideline.hudi.recovery.version_change import VERSION_CHANGE
from tideline.hudi.table.table_config import TableType
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable
from tideline.testing.version_changes import (
    NEXT,
    WITH_METADATA,
    assert_sound,
    change,
    opened,
    table_with_a_past,
)

CRASHES: dict[str, Callable[[int], FaultPlan]] = {
    "before write": lambda number: FaultPlan(crash_before_write=number),
    "after write": lambda number: FaultPlan(crash_after_write=number),
}


@dataclass
class Case:
    """A change of version whose table is copied for every death."""

    table: SmallTable
    before: int
    after: int


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((6, 9, TableType.COPY_ON_WRITE), id="up"),
        pytest.param((9, 6, TableType.MERGE_ON_READ), id="down", marks=pytest.mark.slow),
        pytest.param((9, 6, None), id="down with an archive", marks=pytest.mark.slow),
        pytest.param((8, 9, TableType.MERGE_ON_READ), id="same timeline"),
    ],
)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    before, after, table_type = request.param
    # A metadata table that was not compacted yet needs every instant.
    wanted = WITH_METADATA if before > 6 and table_type else {}
    table = table_with_a_past(before, table_type or TableType.COPY_ON_WRITE, wanted)
    yield Case(table, before, after)
    table.forget()


@pytest.mark.slow_with("same timeline-before write", "same timeline-after write")
@pytest.mark.parametrize("crash", CRASHES)
def test_died_at_any_write(case: Case, crash: str) -> None:
    """Readers see one version or the other, whole; the same call finishes; so does a writer."""
    rows = case.table.values()
    copy = case.table.copy()
    change(copy, case.after, rehearsal := FaultyStore(copy.store()))
    versions = set()
    for number in range(1, len(rehearsal.writes) + 1):
        when = f"{crash} {number}: {rehearsal.writes[number - 1]}"
        table = case.table.copy()
        with pytest.raises(SimulatedCrash):
            change(table, case.after, FaultyStore(table.store(), CRASHES[crash](number)))
        table.clock.sleep(3_600)
        versions.add(opened(table).config.version)
        assert table.values() == rows, when
        if number % 2:
            table.write("upsert", NEXT)
            # A service that died may wait until somebody runs it.
            assert VERSION_CHANGE not in opened(table).config.properties, when
            assert table.values() == sorted({**dict(rows), "k001": 30, "k040": 30}.items()), when
            found = table.lake().check(keys=True)
            assert all(finding.severity is Severity.NOTE for finding in found), when
        change(table, case.after)
        assert opened(table).config.version == case.after, when
        if not number % 2:
            table.write("upsert", NEXT)
        assert_written(table, rows, when)
        table.forget()
    assert versions == {case.before, case.after}


def assert_written(table: SmallTable, rows: list[tuple[str, int]], when: str) -> None:
    assert table.values() == sorted({**dict(rows), "k001": 30, "k040": 30}.items()), when
    assert_sound(table, when)


def test_the_store_being_away_for_one_call(case: Case) -> None:
    rows = case.table.values()
    copy = case.table.copy()
    change(copy, case.after, rehearsal := FaultyStore(copy.store()))
    for number in range(1, rehearsal.calls + 1, 5):
        table = case.table.copy()
        plan = FaultPlan(unavailable_calls=frozenset({number}))
        with suppress(StorageUnavailableError, ConflictError):
            change(table, case.after, FaultyStore(table.store(), plan))
        assert table.values() == rows, number
        table.clock.sleep(3_600)
        change(table, case.after)
        table.write("upsert", NEXT)
        assert_written(table, rows, f"away for call {number}")
        table.forget()
