"""What a check says of builds of indexes of Hudi's, and what repairs do beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tideline.check_finding import Finding, Severity
from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.index_builds import NAME
from tideline.hudi.table.properties import BACKUP_PATH, PROPERTIES_PATH
from tideline.hudi.table.table_config import COLUMN_STATS, METADATA_TABLE_PATH, RECORD_INDEX
from tideline.hudi.timeline.instant import State
from tideline.testing.dead_index_build import put_index_build, with_dead_build
from tideline.testing.small_table import QUIET, SmallTable, batch

SILENT_S = DEFAULT_LIMITS.silent_s_max + 1


@pytest.fixture(params=[6, 8, 9])
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = SmallTable.in_memory(
        table_version=request.param, properties={"hoodie.metadata.enable": "true"}
    )
    table.write("insert", batch(range(6), 1), options=QUIET)
    yield table
    table.forget()


def builds(small: SmallTable) -> Sequence[Finding]:
    return [finding for finding in small.lake().check() if finding.check == NAME]


def errors(small: SmallTable) -> Sequence[str]:
    found = small.lake().check(keys=True)
    return [finding.message for finding in found if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("name", [RECORD_INDEX, COLUMN_STATS])
def test_a_dead_build_is_named_and_no_repair_ends_it(small: SmallTable, name: str) -> None:
    with_dead_build(small, name)
    (young,) = builds(small)
    assert (young.severity, young.advice) == (Severity.NOTE, "")
    small.fake_clock.advance(SILENT_S)
    (old,) = builds(small)
    assert old.severity is Severity.WARNING
    assert f"`tideline index drop {name} --end-build`" in old.advice
    # What it did not add.
    wrong = errors(small)
    before = sorted(info.path for info in small.store().list(METADATA_TABLE_PATH))
    if wrong:
        small.store().put(BACKUP_PATH, small.store().get(PROPERTIES_PATH))
        with pytest.raises(ConflictError, match="--end-build"):
            small.lake().repair(keys=True)
        # All else was mended.
        assert small.store().head(BACKUP_PATH) is None
    assert (name == RECORD_INDEX) == bool(wrong)
    assert sorted(info.path for info in small.store().list(METADATA_TABLE_PATH)) == before
    assert errors(small) == wrong
    small.lake().indexes({}).drop(name, end_build=True)
    small.lake().repair(keys=True)
    assert builds(small) == []
    assert errors(small) == []
    small.write("upsert", batch([2, 20], 6), options=QUIET)
    small.lake().indexes({}).create(name)
    assert errors(small) == []


def test_a_build_that_did_not_start_or_left_nothing_is_a_note(small: SmallTable) -> None:
    put_index_build(small.lake().hoodie_table, [RECORD_INDEX], state=State.REQUESTED)
    small.fake_clock.advance(SILENT_S)
    (requested,) = builds(small)
    assert (requested.severity, "did not start" in requested.message) == (Severity.NOTE, True)
    small.lake().indexes({}).drop(RECORD_INDEX, end_build=True)
    put_index_build(small.lake().hoodie_table, ["secondary_index_v"])
    small.fake_clock.advance(SILENT_S)
    (failed,) = builds(small)
    assert (failed.severity, failed.message.split()[-4:]) == (
        Severity.NOTE,
        ["the", "next", "commit", "deletes"],
    )
    small.write("upsert", batch([2], 6), options=QUIET)
    assert builds(small) == []


def test_a_build_without_a_plan_is_named_by_its_objects(small: SmallTable) -> None:
    put_index_build(small.lake().hoodie_table, [])
    small.fake_clock.advance(SILENT_S)
    (found,) = builds(small)
    assert "delete .hoodie/" in found.advice
