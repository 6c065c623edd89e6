"""Commits that another writer archived behind a savepoint, which Hudi's readers take for none."""

from __future__ import annotations

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConfigError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.table.table_config import TableType
from tideline.testing.archival_of_others import archive_beyond_savepoints
from tideline.testing.small_table import ONCE, QUIET, SmallTable, batch

CONFIG = ArchivalConfig(1, 2, compaction_delta_commits=None)


@pytest.mark.parametrize("table_type", TableType)
@pytest.mark.parametrize("version", [6, 9])
def test_rows_behind_a_savepoint_are_named_until_they_are_written_again(
    version: int, table_type: TableType
) -> None:
    table = SmallTable.in_memory(table_type=table_type, table_version=version)
    write(table, 0)
    table.lake().savepoint()
    for number in (2, 4, 6):
        write(table, number)
    saved = table.lake().savepoints()[0].instant
    assert errors(table) == []
    archive_beyond_savepoints(table.lake().hoodie_table, CONFIG)
    (said,) = errors(table)
    assert said == (
        "2 file groups of commits that were archived behind a savepoint: Hudi's queries do not "
        "find their rows; have their rows written again by a clustering, as long as there is a "
        f"savepoint of {saved}: without it readers here do not find them either"
    )
    rows = table.values()
    with pytest.raises(ConfigError, match=r"would miss 2 files of the table; have their rows wr"):
        table.lake().delete_savepoint(saved)
    assert table.values() == rows
    table.fake_clock.advance(60)
    assert table.lake().run("clustering", options=ONCE).done
    assert errors(table) == []
    table.lake().delete_savepoint(saved)
    assert table.values() == rows
    table.forget()


def write(table: SmallTable, number: int) -> None:
    table.fake_clock.advance(60)
    table.write("insert", batch([number], number), options=QUIET)


def errors(table: SmallTable) -> list[str]:
    return [
        f"{finding.message}; {finding.advice}"
        for finding in table.lake().check()
        if finding.severity is Severity.ERROR
    ]
