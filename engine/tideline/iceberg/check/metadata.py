"""Does the table's metadata agree with itself? Reads nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tideline.check_finding import Finding, error, note, warning
from tideline.errors import CorruptTableError
from tideline.iceberg.check.inspection import Inspection
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata

NAME = "metadata"
_CLOCKS_DIFFER_MS = 60_000
"""As much as Iceberg lets writers' clocks differ."""


def check_metadata(seen: Inspection) -> Iterator[Finding]:
    """Findings about ids, sequence numbers, references and logs."""
    metadata = seen.metadata
    yield from _identities(metadata)
    yield from _columns(metadata)
    yield from _snapshots(metadata)
    yield from _times(metadata)
    for entry in metadata.metadata_log:
        if not seen.is_outside(entry.metadata_file) and not seen.size_bytes(entry.metadata_file):
            message = "an earlier metadata file that the log names is missing"
            yield note(NAME, message, path=entry.metadata_file)


def _identities(metadata: TableMetadata) -> Iterator[Finding]:
    """Numbers that the next writer counts on from."""
    highest = max((schema.highest_field_id for schema in metadata.schemas), default=0)
    if metadata.last_column_id < highest:
        yield _reused("last-column-id", metadata.last_column_id, f"field id {highest}", "column")
    partition_ids = [
        field.field_id
        for partition_spec in metadata.partition_specs
        for field in partition_spec.fields
    ]
    if partition_ids and metadata.last_partition_id < max(partition_ids):
        taken = f"partition field id {max(partition_ids)}"
        yield _reused("last-partition-id", metadata.last_partition_id, taken, "partition field")
    if metadata.next_row_id is not None:
        ends = [
            snapshot.first_row_id + (snapshot.added_rows or 0)
            for snapshot in metadata.snapshots
            if snapshot.first_row_id is not None
        ]
        if ends and metadata.next_row_id < max(ends):
            yield _reused("next-row-id", metadata.next_row_id, f"row id {max(ends) - 1}", "row")


def _reused(name: str, value: int, taken: str, what: str) -> Finding:
    return error(NAME, f"{name} is {value}, {taken} is in use: the next {what} would share it")


def _columns(metadata: TableMetadata) -> Iterator[Finding]:
    schema = metadata.schema()
    for number in schema.identifier_field_ids:
        column = schema.field(number)
        if column is None:
            yield error(NAME, f"the key names field {number}, which is no column of the table")
        elif not column.required:
            yield error(NAME, f"column {column.name} of the key may be null")
    for partition_field in metadata.spec().fields:
        is_used = partition_field.transform.name != "void"
        if is_used and schema.field(partition_field.source_id) is None:
            message = f"partition field {partition_field.name} is of a column that was dropped"
            yield error(NAME, f"{message}: nothing can be written")
    try:
        metadata.name_mapping()
    except CorruptTableError as broken:
        yield error(NAME, broken.message)


def _snapshots(metadata: TableMetadata) -> Iterator[Finding]:
    schemas = {schema.schema_id for schema in metadata.schemas}
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    counted = Counter(snapshot.snapshot_id for snapshot in metadata.snapshots)
    for number in (number for number, count in counted.items() if count > 1):
        yield error(NAME, f"snapshot {number} is listed twice")
    for snapshot in metadata.snapshots:
        number = snapshot.sequence_number
        if metadata.format_version > 1 and number > metadata.last_sequence_number:
            message = f"snapshot {snapshot.snapshot_id} has sequence number {number}, the table's "
            message += f"last is {metadata.last_sequence_number}: deletes to come would not apply"
            yield error(NAME, message)
        parent = by_id.get(snapshot.parent_snapshot_id or -1)
        # Snapshots of version 1 have none, also once the table is of another version.
        if number and parent is not None and parent.sequence_number >= number:
            message = f"snapshot {snapshot.snapshot_id} has no higher sequence number than the one "
            yield warning(NAME, f"{message}before it, {parent.snapshot_id}")
        if snapshot.schema_id is not None and snapshot.schema_id not in schemas:
            message = f"snapshot {snapshot.snapshot_id} names schema {snapshot.schema_id}"
            yield error(NAME, f"{message}, which the table does not have")
    main = metadata.refs.get(MAIN)
    current = metadata.current_snapshot_id
    if main is not None and main.snapshot_id != current:
        message = f"branch main leads to snapshot {main.snapshot_id}"
        yield error(NAME, f"{message}, current-snapshot-id is {current}")


def _times(metadata: TableMetadata) -> Iterator[Finding]:
    """Iceberg's readers refuse times that go back by more than a minute."""
    log = metadata.snapshot_log
    for before, after in pairwise(log):
        if after.timestamp_ms < before.timestamp_ms - _CLOCKS_DIFFER_MS:
            message = f"snapshot {after.snapshot_id} is older in the log than the one before it"
            yield error(NAME, f"{message}: Iceberg refuses the table")
    newest = max((entry.timestamp_ms for entry in log), default=0)
    if metadata.last_updated_ms < newest - _CLOCKS_DIFFER_MS:
        yield error(
            NAME, "last-updated-ms is before the newest snapshot: Iceberg refuses the table"
        )
