"""What a write asks for, and how Hudi names it.

Source: Hudi `WriteOperationType` and `CommitUtils.getCommitActionType`.
"""

from __future__ import annotations

from enum import Enum

from tideline.errors import ConfigError
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.table.properties import TableType
from tideline.hudi.timeline.instant import Action


class WriteOperation(Enum):
    """A write operation; the value is what users type."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @classmethod
    def parse(cls, text: str | WriteOperation) -> WriteOperation:
        """The operation named `text`, in any case. Raises ConfigError naming the valid words."""
        if isinstance(text, WriteOperation):
            return text
        try:
            return cls(text.strip().lower())
        except ValueError:
            words = ", ".join(operation.value for operation in cls)
            raise ConfigError(
                f"unknown write operation; expected one of {words}", value=text
            ) from None

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @property
    def json_name(self) -> str:
        """`operationType` in commit metadata."""
        return self.name

    @property
    def replaces_file_groups(self) -> bool:
        """Whether the commit replaces file groups, and therefore is a `replacecommit`."""
        return self in (
            WriteOperation.INSERT_OVERWRITE,
            WriteOperation.INSERT_OVERWRITE_TABLE,
            WriteOperation.DELETE_PARTITION,
        )

    @property
    def tags_keys(self) -> bool:
        """Whether incoming keys are looked up in an index that reads base files.

        A bucket index places every row by hash and needs no lookup; see `tideline.index`.
        """
        return self in (WriteOperation.UPSERT, WriteOperation.DELETE)

    @property
    def writes_rows(self) -> bool:
        """Whether the operation takes rows that may create new file groups."""
        return self not in (WriteOperation.DELETE, WriteOperation.DELETE_PARTITION)

    @property
    def permission(self) -> Permission:
        """What has to be allowed of the table."""
        if self is WriteOperation.DELETE_PARTITION:
            return Permission.DROP_PARTITIONS
        return Permission.WRITE

    def action(self, table_type: TableType) -> Action:
        """The timeline action this operation commits as."""
        if self.replaces_file_groups:
            return Action.REPLACECOMMIT
        if table_type is TableType.MERGE_ON_READ:
            return Action.DELTACOMMIT
        return Action.COMMIT
