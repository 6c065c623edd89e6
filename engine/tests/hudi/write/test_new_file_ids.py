"""New file groups of tables without buckets."""

from __future__ import annotations

from uuid import UUID

import pytest

from tideline.hudi.write.new_file_id import new_file_id

PLAIN = UUID("5023772b-1fc6-4d7b-a563-21257d92e366")


@pytest.mark.parametrize("first", ["00055533", "00000000"])
def test_no_id_begins_as_that_of_a_bucket(first: str) -> None:
    drawn = [UUID(f"{first}{str(PLAIN)[8:]}"), PLAIN]
    assert new_file_id(lambda: drawn.pop(0)) == str(PLAIN)


def test_ids_are_random() -> None:
    assert new_file_id() != new_file_id()
