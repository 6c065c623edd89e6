"""Faults planted in a table that a source fills, by another writer: each is to be found."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.ingest.execute.table_access import SessionFactory
from tideline.ingest.operation.operation import IngestRange, Operation, TableTarget
from tideline.ingest.sources.source import Declared
from tideline.ingest.verify.verification import Kind, Verification
from tideline.ingest.verify.verify_ingest import verify_ingests
from tideline.lake_table import LakeTable
from tideline.testing.people_ingest import no_session

Row = Mapping[str, Any]


def verified(target: TableTarget, source: Declared, operation: str = "upsert") -> Verification:
    """A table compared with its source."""
    work = IngestRange(target.name, source, source.no_range(), 0, operation)
    return verified_together(Operation("verify", target, work))


def verified_together(
    *operations: Operation, session_factory: SessionFactory = no_session
) -> Verification:
    """The table of several ingests compared with all their sources."""
    return verify_ingests(operations, session_factory=session_factory, progress=lambda _: None)


def plant(
    table: LakeTable | IcebergLakeTable, rows: Sequence[Row], deleted: Row
) -> set[tuple[Kind, str]]:
    """Each fault in a row of its own, of eight rows with `id`, text `v`, float `size` and moment
    `at`; `deleted` is a row that the source had. What is to be found."""
    changed, missing, doubled, emptied, bit, later, valued, _ = rows
    upserts = [
        {**changed, "v": "changed"},
        {**emptied, "v": None},
        {**bit, "size": next_float(bit["size"])},
        {**later, "at": later["at"] + timedelta(microseconds=1)},
        {**valued, "v": ""},
        dict(deleted),
        {**changed, "id": 9_999},
    ]
    table.upsert(upserts)
    table.delete(f"id = {missing['id']}")
    table.append([dict(doubled)])
    different = (changed, emptied, bit, later, valued)
    return {
        *((Kind.DIFFERENT, str(row["id"])) for row in different),
        *((Kind.EXTRA, str(number)) for number in (deleted["id"], doubled["id"], 9_999)),
        (Kind.MISSING, str(missing["id"])),
    }


def named(found: Verification) -> set[tuple[Kind, str]]:
    """The kinds and keys of the rows that differ."""
    return {(row.kind, row.key) for row in found.found.first}


def next_float(value: float) -> float:
    """The same with its last bit changed."""
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    (found,) = struct.unpack(">d", struct.pack(">q", bits ^ 1))
    return float(found)
