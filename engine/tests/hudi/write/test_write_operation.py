"""Operations: their names in Hudi's metadata and their timeline actions."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.hudi.table.properties import TableType
from tideline.hudi.timeline.instant import Action
from tideline.hudi.write.write_operation import WriteOperation

REPLACING = {
    WriteOperation.INSERT_OVERWRITE,
    WriteOperation.INSERT_OVERWRITE_TABLE,
    WriteOperation.DELETE_PARTITION,
}


@pytest.mark.parametrize("operation", WriteOperation)
def test_operations_parse_what_they_print(operation: WriteOperation) -> None:
    assert WriteOperation.parse(str(operation).upper()) is operation
    assert operation.json_name == str(operation).upper()


def test_an_unknown_operation_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"insert, upsert.*merge_into"):
        WriteOperation.parse("merge_into")


@pytest.mark.parametrize("operation", WriteOperation)
def test_overwrites_are_replacecommits_on_both_table_types(operation: WriteOperation) -> None:
    replaces = operation in REPLACING
    assert operation.replaces_file_groups == replaces
    cow = operation.action(TableType.COPY_ON_WRITE)
    mor = operation.action(TableType.MERGE_ON_READ)
    assert cow is (Action.REPLACECOMMIT if replaces else Action.COMMIT)
    assert mor is (Action.REPLACECOMMIT if replaces else Action.DELTACOMMIT)


def test_only_upsert_and_delete_look_keys_up() -> None:
    tagging = {operation for operation in WriteOperation if operation.tags_keys}
    assert tagging == {WriteOperation.UPSERT, WriteOperation.DELETE}
