"""Keys stored in two partitions: found when asked for, and where keys are unique in the table."""

from __future__ import annotations

from tideline.hudi.check.keys import NAME
from tideline.hudi.table.table_config import INDEX_TYPE, METADATA_PARTITIONS
from tideline.testing.small_table import SmallTable, batch


def key_findings(table: SmallTable, **more: bool) -> list[tuple[str, str, str | None]]:
    found = (finding for finding in table.lake().check(keys=True, **more) if finding.check == NAME)
    return [
        (str(finding.severity), finding.message.partition(": ")[0], finding.path)
        for finding in found
    ]


def test_a_key_in_two_partitions_is_an_error_where_keys_are_unique() -> None:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(4), 1))
    table.write("insert", batch([0, 1], 2, partitions=1))
    across = [
        ("warning", "key 'k001' is stored 2 times in the table", None),
    ]
    within = ("error", "key 'k000' is stored 2 times in partition 'p0'", "p0")
    assert key_findings(table) == [within]
    doubled = ("error", "key 'k000' is stored 2 times in the table", None)
    assert key_findings(table, across_partitions=True) == [doubled, *across]
    table.lake().hoodie_table.properties.update({INDEX_TYPE: "GLOBAL_SIMPLE"})
    because = "where keys are unique (tideline.index.type=GLOBAL_SIMPLE)"
    assert key_findings(table) == [
        ("error", f"key {key!r} is stored 2 times in the table, {because}", None)
        for key in ("k000", "k001")
    ]
    table.lake().hoodie_table.properties.update(
        {INDEX_TYPE: None, METADATA_PARTITIONS: "record_index"}
    )
    assert [kind for kind, *_ in key_findings(table)] == ["error", "error"]
