"""Which table was loaded first: its UUID, which a rename keeps and a new table never has. Pure.

A name or a folder may hold another table a moment later. What was planned for the first must not be
done to the second, and what the second does not list may well be live in the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import ConflictError
from tideline.iceberg.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """The UUID of a table; None before it was seen, and for metadata of version 1 without one."""

    table_uuid: str | None

    def replaced_by(self, metadata: TableMetadata) -> str | None:
        """That `metadata` is another table's, as text; None when it is this one's."""
        found = _stored_uuid(metadata)
        if self.table_uuid is None or found is None or found == self.table_uuid:
            return None
        return f"another table is at this place now: {found}, not {self.table_uuid}"

    def confirmed(self, metadata: TableMetadata, *, table: str) -> TableIdentity:
        """The identity once `metadata` was seen. Raises ConflictError for another table's."""
        other = self.replaced_by(metadata)
        if other is not None:
            raise ConflictError(f"{other}; open the one that is meant by its name", table=table)
        return self if self.table_uuid else TableIdentity(_stored_uuid(metadata))


UNSEEN = TableIdentity(None)


def _stored_uuid(metadata: TableMetadata) -> str | None:
    """As the metadata file has it: a writer may give one to a table of version 1 at any time."""
    stored = metadata.document.get("table-uuid")
    return None if stored is None else str(stored).lower()
