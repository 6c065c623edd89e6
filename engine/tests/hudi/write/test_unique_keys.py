"""What an upsert says of the keys it kept unique, and whether the table will remember it."""

from __future__ import annotations

import pytest

from tideline.testing.small_table import SmallTable, batch

INDEX = "hoodie.index.type"


@pytest.mark.parametrize(
    ("kept", "named", "unique_in", "is_noted"),
    [
        ("", "", "partition", False),
        ("", "BLOOM", "partition", False),
        ("BUCKET", "", "partition", False),
        ("", "GLOBAL_SIMPLE", "table", True),
        ("GLOBAL_BLOOM", "", "table", False),
        ("GLOBAL_BLOOM", "GLOBAL_SIMPLE", "table", False),
    ],
)
def test_an_upsert_says_where_keys_are_unique(
    kept: str, named: str, unique_in: str, is_noted: bool
) -> None:
    table = SmallTable.in_memory({INDEX: kept} if kept else None)
    options = {INDEX: named} if named else {}
    report = table.write("upsert", batch(range(3), 1), options=options)
    assert report.keys_unique_in == unique_in
    noted = [note for note in report.notes if f"--index {named}` keeps it" in note]
    assert len(noted) == int(is_noted)
    assert table.write("insert", batch([7], 1), options=options).keys_unique_in is None
