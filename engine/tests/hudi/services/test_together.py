"""Which work on a table begins while other work continues."""

from __future__ import annotations

from itertools import product

import pytest

from tideline.hudi.services.registry import all_services, service_named
from tideline.services.concurrency import TableWork, may_begin

WRITE = TableWork()
INSERT = TableWork(meets_clustering=False)
ALONE = TableWork(is_alone=True)
BY_THE_TIMELINE = ("cleaning", "archival")
MOVING_ROWS = ("compaction", "log_compaction", "clustering")
EVERYTHING = (WRITE, INSERT, ALONE, *(TableWork(table_service) for table_service in all_services()))


def service(name: str, *, is_planned: bool = False) -> TableWork:
    return TableWork(service_named(name), is_planned=is_planned)


def test_anything_begins_on_a_table_at_rest() -> None:
    assert all(may_begin(work, ()) for work in EVERYTHING)


@pytest.mark.parametrize("new", EVERYTHING)
@pytest.mark.parametrize(
    "alone", [ALONE, *(service(name) for name in ("rollback", "partition_ttl"))]
)
def test_some_work_wants_the_table_for_itself(new: TableWork, alone: TableWork) -> None:
    assert not may_begin(new, [alone])
    assert not may_begin(alone, [new])


def test_writes_go_one_after_the_other() -> None:
    assert not any(may_begin(new, [old]) for new, old in product((WRITE, INSERT), repeat=2))


@pytest.mark.parametrize("name", BY_THE_TIMELINE)
def test_the_timeline_is_looked_after_while_rows_move(name: str) -> None:
    for moving in (WRITE, INSERT, *map(service, MOVING_ROWS)):
        assert may_begin(service(name), [moving])
        assert may_begin(moving, [service(name)])
    assert not any(may_begin(service(name), [service(other)]) for other in BY_THE_TIMELINE)


@pytest.mark.parametrize("name", ["compaction", "log_compaction"])
def test_writes_go_on_once_the_plan_of_a_compaction_stands(name: str) -> None:
    assert may_begin(WRITE, [service(name, is_planned=True)])
    assert not may_begin(WRITE, [service(name)])
    assert not may_begin(service(name), [WRITE])


def test_a_clustering_stops_updates_that_it_would_refuse() -> None:
    planned = service("clustering", is_planned=True)
    assert not may_begin(WRITE, [planned])
    assert may_begin(INSERT, [planned])
    assert not may_begin(INSERT, [service("clustering")])


@pytest.mark.parametrize(("new", "old"), list(product(MOVING_ROWS, repeat=2)))
def test_one_service_moves_rows_at_a_time(new: str, old: str) -> None:
    assert not may_begin(service(new), [service(old, is_planned=True)])


def test_all_of_what_goes_on_has_to_fit() -> None:
    resume = [service("compaction", is_planned=True), service("cleaning")]
    assert may_begin(WRITE, resume)
    assert not may_begin(service("archival"), resume)
    assert not may_begin(WRITE, [*resume, INSERT])
