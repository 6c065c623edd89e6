"""A table taken back to a savepoint from before an ALTER of Hudi's: both engines read it as it was.

Hudi leaves the files of its schema history alone; those of commits that are gone do not count.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.testing.altered_table import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    SETTINGS,
    AlteredTable,
    Row,
    renamed,
)
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

CASES = [
    (COPY_ON_WRITE, False, False),
    (COPY_ON_WRITE, False, True),
    (MERGE_ON_READ, False, True),
    (MERGE_ON_READ, True, False),
]
REGION = {"id": "north", "ts": 1}


@pytest.mark.parametrize(("kind", "has_metadata", "had_versions"), CASES)
def test_a_restore_takes_the_columns_back_with_the_rows(
    spark: SparkSession,
    altering: HudiPeer,
    tmp_path: Path,
    kind: str,
    has_metadata: bool,
    had_versions: bool,
) -> None:
    name = f"restored_{kind}_{has_metadata}_{had_versions}".lower()
    table = AlteredTable(tmp_path / "t", spark, altering, kind, name, has_metadata)
    table.create("a int, b string")
    insert(table, 1, 2, 3)
    if had_versions:
        # Then the savepoint is of a table whose schema has a history of its own.
        table.sql("alter table {t} rename column a to c")
        table.sql("alter table {t} rename column b to a")
        table.reshape(lambda row: renamed(row, {"a": "c", "b": "a"}))
    number, text = ("c", "a") if had_versions else ("a", "b")
    table.upsert({**table.model["k1"], number: 10, "ts": 2})
    table.check()
    kept = dict(table.model)
    savepoint = create_savepoint(table.lake.hoodie_table).instant

    table.sql(f"alter table {{t}} rename column {number} to later")
    table.sql(f"alter table {{t}} alter column {text} type binary")
    table.sql(f"alter table {{t}} add columns ({number} bigint)")
    table.reshape(
        lambda row: renamed(row, {number: "later"}, **{text: row[text].encode()}) | {number: None}
    )
    # The new column is last, but for the partition column.
    table.reshape(lambda row: {key: row[key] for key in table_order(table)})
    table.upsert({**table.model["k2"], "later": 20, number: 2**40, "ts": 3})
    table.sql(f"update {{t}} set {number} = 5, ts = 4 where id = 'k3'")
    table.model["k3"] |= {number: 5, "ts": 4}
    table.check()
    table.cluster_or_compact()
    table.check()

    restore_table(table.lake.hoodie_table, savepoint)
    table.model = kept
    table.check()
    assert not [finding for finding in table.lake.check() if str(finding.severity) == "error"]
    delete_savepoint(table.lake.hoodie_table, savepoint)

    # Hudi continues, and alters the table again: its old files are still read by what they were.
    reopened(table)
    table.sql(f"update {{t}} set {number} = 30, ts = 5 where id = 'k2'")
    table.model["k2"] |= {number: 30, "ts": 5}
    table.check()
    table.upsert({**table.model["k3"], number: 31, "ts": 6})
    table.check()
    table.sql(f"alter table {{t}} rename column {number} to again")
    table.reshape(lambda row: renamed(row, {number: "again"}))
    table.check()
    table.upsert({**table.model["k1"], "again": 100, "ts": 7})
    table.check()
    table.cluster_or_compact()
    table.check()


def insert(table: AlteredTable, *numbers: int) -> None:
    rows = []
    for n in numbers:
        row: Row = {"id": f"k{n}", "a": n, "b": f"b{n}", "ts": 1, "region": "north"}
        table.model[row["id"]] = row
        rows.append(f"('k{n}', {n}, 'b{n}', 1, 'north')")
    table.sql(f"insert into {{t}} values {', '.join(rows)}")


def table_order(table: AlteredTable) -> list[str]:
    hoodie = table.lake.hoodie_table
    schema = hoodie.schemas.newest(hoodie.timeline())
    assert schema is not None
    return list(schema.names)


def reopened(table: AlteredTable) -> None:
    """The catalog of Hudi's session forgets the columns that the table had."""
    table.sql("drop table {t}")
    assert (table.folder / ".hoodie").is_dir()
    table.sql(f"create table {{t}} using hudi location '{table.folder}'")
    for name, text in SETTINGS.items():
        table.peer.run_statement(f"set {name}={text}")
