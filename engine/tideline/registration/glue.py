"""AWS's Glue Data Catalog as a metastore, by Tideline's own requests. Needs no extra.

A table has a version that Glue counts, and changes under the one that was seen. Partitions keep
columns of their own: where a table's change, theirs change first, so that a process that dies in
between leaves a table that is still to be changed.

Source: AWS, "AWS Glue Web API Reference"; Hudi's AWSGlueCatalogSyncClient.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tideline.errors import ConfigError
from tideline.glue.address import ENDPOINT, REGION, GlueAddress
from tideline.glue.client import Answer, GlueClient, Refusal, Refused
from tideline.glue.keys import keys_of_process
from tideline.glue.table_input import COMMENT_LENGTH_MAX, as_input
from tideline.hudi.table.table_config import TableConfig
from tideline.registration.metastore import (
    RegisteredColumn,
    RegisteredPartition,
    RegisteredTable,
    StorageFormat,
    batches,
)
from tideline.registration.table_name import TableName
from tideline.storage.location import StoreLocation
from tideline.trust.foreign_words import quoted

_CHANGED_AT_ONCE: Final = 100
_DROPPED_AT_ONCE: Final = 25
_READ_AT_ONCE: Final = 1000
_KEPT = ("Values", "StorageDescriptor", "Parameters", "LastAccessTime", "LastAnalyzedTime")
"""Members of a partition that an update may have."""


@dataclass(frozen=True, slots=True)
class GlueMetastore:
    """The catalog of a region and an account."""

    client: GlueClient

    @classmethod
    def at(cls, address: str) -> GlueMetastore:
        """The catalog of a region, or at an address, with the credentials of this process.

        Raises ConfigError for what is neither, and without credentials.
        """
        given = {ENDPOINT if "://" in address else REGION: address}
        found = GlueAddress.of(given, os.environ)
        return cls(GlueClient(found, keys_of_process({}, found.region)))

    @property
    def kind(self) -> str:
        return "glue"

    def spelled(self, location: StoreLocation) -> str:
        return location.uri

    def parameters_for(self, config: TableConfig) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def create_database(self, database: str) -> None:
        found = self.client.call("GetDatabase", {"Name": database})
        if _is(found, Refusal.MISSING):
            made = {"Name": database, "Description": "made by Tideline"}
            found = self.client.call("CreateDatabase", {"DatabaseInput": made})
            if _is(found, Refusal.EXISTS):
                return
        _done(found, database)

    def table(self, name: TableName) -> RegisteredTable | None:
        stored = self._stored(name)
        return None if stored is None else _value(name, stored)

    def create_table(self, table: RegisteredTable) -> bool:
        given = {
            "Name": table.name.name,
            "PartitionKeys": list(map(_column_input, table.partition_columns)),
            **_described(table, {"Location": table.location}),
        }
        request = {"DatabaseName": table.name.database, "TableInput": given}
        found = self.client.call("CreateTable", request)
        if _is(found, Refusal.EXISTS):
            return False
        _done(found, table.name)
        return True

    def alter_table(self, seen: RegisteredTable, table: RegisteredTable) -> bool:
        stored = self._stored(table.name)
        if stored is None or stored.get("VersionId") != seen.version or seen.version is None:
            return False
        if table.partition_columns and table.columns != seen.columns:
            columns = list(map(_column_input, table.columns))
            self._update(
                table, ((partition, {"Columns": columns}) for partition in self._listed(table))
            )
        descriptor = stored.get("StorageDescriptor") or {}
        request = {
            "DatabaseName": table.name.database,
            "TableInput": {**as_input(stored), **_described(table, descriptor)},
            "VersionId": seen.version,
            "SkipArchive": True,
        }
        found = self.client.call("UpdateTable", request)
        if _is(found, Refusal.CHANGED) or _is(found, Refusal.MISSING):
            return False
        _done(found, table.name)
        return True

    def partitions(
        self, table: RegisteredTable, values: Iterable[tuple[str, ...]] | None = None
    ) -> Iterator[RegisteredPartition]:
        found = self._listed(table) if values is None else self._read(table, values)
        for stored in found:
            descriptor = stored.get("StorageDescriptor") or {}
            place = str(descriptor.get("Location", ""))
            yield RegisteredPartition(_values(stored), place)

    def add_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        for some in batches(partitions, _CHANGED_AT_ONCE):
            given = [
                {
                    "Values": list(partition.values),
                    "StorageDescriptor": _descriptor(table, {"Location": partition.location}),
                }
                for partition in some
            ]
            request = {"PartitionInputList": given}
            self._change(table, "BatchCreatePartition", request, unless=Refusal.EXISTS)

    def move_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        places = {partition.values: partition.location for partition in partitions}
        stored = (entry for entry in self._read(table, places) if _values(entry) in places)
        self._update(table, ((entry, {"Location": places[_values(entry)]}) for entry in stored))

    def drop_partitions(self, table: RegisteredTable, values: Iterable[tuple[str, ...]]) -> None:
        for some in batches(values, _DROPPED_AT_ONCE):
            request = {"PartitionsToDelete": [{"Values": list(each)} for each in some]}
            self._change(table, "BatchDeletePartition", request, unless=Refusal.MISSING)

    def _stored(self, name: TableName) -> Answer | None:
        request = {"DatabaseName": name.database, "Name": name.name}
        found = self.client.call("GetTable", request)
        if _is(found, Refusal.MISSING):
            return None
        stored = _done(found, name).get("Table")
        if not isinstance(stored, dict):
            raise ConfigError("Glue's answer has no table", value=str(name))
        return stored

    def _listed(self, table: RegisteredTable) -> Iterator[Answer]:
        request = _of(table)
        for page in self.client.pages("GetPartitions", request, "Partitions"):
            yield from _done(page, table.name)

    def _read(self, table: RegisteredTable, values: Iterable[tuple[str, ...]]) -> Iterator[Answer]:
        for some in batches(values, _READ_AT_ONCE):
            waiting: Any = [{"Values": list(each)} for each in some]
            while waiting:
                request = {**_of(table), "PartitionsToGet": waiting}
                answer = _done(self.client.call("BatchGetPartition", request), table.name)
                yield from answer.get("Partitions") or []
                left = answer.get("UnprocessedKeys") or []
                if len(left) >= len(waiting):
                    raise ConfigError("Glue answers for no partition", value=str(table.name))
                waiting = left

    def _update(
        self, table: RegisteredTable, changed: Iterable[tuple[Answer, Mapping[str, Any]]]
    ) -> None:
        """Change the storage descriptors of partitions; what else they have stays."""
        for some in batches(changed, _CHANGED_AT_ONCE):
            entries = [
                {
                    "PartitionValueList": list(_values(stored)),
                    "PartitionInput": _altered(stored, change),
                }
                for stored, change in some
            ]
            request = {"Entries": entries}
            self._change(table, "BatchUpdatePartition", request, unless=Refusal.MISSING)

    def _change(
        self, table: RegisteredTable, action: str, request: Answer, *, unless: Refusal
    ) -> None:
        """Raises ConfigError for a partition that Glue refuses for another reason than `unless`."""
        answer = _done(self.client.call(action, {**_of(table), **request}), table.name)
        for error in answer.get("Errors") or []:
            detail = error.get("ErrorDetail") or {}
            code = str(detail.get("ErrorCode", ""))
            if code != unless.value:
                where = "/".join(map(str, error.get("PartitionValues") or []))
                words = quoted(f"{code}: {detail.get('ErrorMessage', '')}")
                raise ConfigError(f"Glue refuses a partition: {words}", value=quoted(where))


def _values(stored: Answer) -> tuple[str, ...]:
    return tuple(map(str, stored.get("Values") or ()))


def _value(name: TableName, stored: Answer) -> RegisteredTable:
    descriptor = stored.get("StorageDescriptor") or {}
    serde = descriptor.get("SerdeInfo") or {}
    return RegisteredTable(
        name,
        tuple(map(_column, descriptor.get("Columns") or [])),
        tuple(map(_column, stored.get("PartitionKeys") or [])),
        str(descriptor.get("Location") or ""),
        StorageFormat(
            str(descriptor.get("InputFormat") or ""),
            str(descriptor.get("OutputFormat") or ""),
            str(serde.get("SerializationLibrary") or ""),
            dict(serde.get("Parameters") or {}),
        ),
        dict(stored.get("Parameters") or {}),
        str(stored.get("TableType") or ""),
        stored.get("VersionId"),
    )


def _described(table: RegisteredTable, descriptor: Mapping[str, Any]) -> dict[str, Any]:
    """What an input says of the values of a table, over what Glue has."""
    return {
        "TableType": table.kind,
        "Parameters": dict(table.parameters),
        "StorageDescriptor": _descriptor(table, descriptor),
    }


def _descriptor(table: RegisteredTable, known: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **known,
        "Columns": list(map(_column_input, table.columns)),
        "InputFormat": table.format.input_format,
        "OutputFormat": table.format.output_format,
        "SerdeInfo": {
            **(known.get("SerdeInfo") or {}),
            "SerializationLibrary": table.format.serde,
            "Parameters": dict(table.format.serde_parameters),
        },
    }


def _altered(stored: Answer, change: Mapping[str, Any]) -> Answer:
    kept = {member: stored[member] for member in _KEPT if member in stored}
    return {**kept, "StorageDescriptor": {**(stored.get("StorageDescriptor") or {}), **change}}


def _column(stored: Answer) -> RegisteredColumn:
    comment = str(stored.get("Comment") or "")
    return RegisteredColumn(str(stored.get("Name") or ""), str(stored.get("Type") or ""), comment)


def _column_input(column: RegisteredColumn) -> Answer:
    comment = {"Comment": column.comment[:COMMENT_LENGTH_MAX]} if column.comment else {}
    return {"Name": column.name, "Type": column.type, **comment}


def _of(table: RegisteredTable) -> dict[str, Any]:
    return {"DatabaseName": table.name.database, "TableName": table.name.name}


def _is(found: object, reason: Refusal) -> bool:
    return isinstance(found, Refused) and found.reason is reason


def _done(found: Any, subject: object) -> Any:
    """An answer. Raises ConfigError and StorageUnavailableError for a refusal."""
    if isinstance(found, Refused):
        raise found.error(value=str(subject))
    return found
