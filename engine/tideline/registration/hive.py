"""Hive's metastore, to register tables in. Needs the extra `hive`.

A connection is opened for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, TypeVar

from hive_metastore import ttypes
from thrift.Thrift import TApplicationException, TException

from tideline.errors import ConfigError, StorageUnavailableError, UnsupportedTableError
from tideline.hive.address import HiveAddress, hive_addresses
from tideline.hive.connection import (
    REFUSALS,
    CheckedClient,
    Connection,
    has_moved_on,
    user_name,
    words_of,
)
from tideline.hive.wire import UNKNOWN_METHOD, no_such_call
from tideline.hudi.table.table_config import TableConfig
from tideline.registration.metastore import (
    LAST_COMMIT,
    RegisteredColumn,
    RegisteredPartition,
    RegisteredTable,
    StorageFormat,
    batches,
)
from tideline.registration.partition_values import partition_name
from tideline.registration.table_name import TableName
from tideline.storage.location import StoreLocation

T = TypeVar("T")

_BATCH = 1000
_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
_INCOMPATIBLE = "types incompatible with the existing columns"
_INCOMPATIBLE_HINT = (
    ": set hive.metastore.disallow.incompatible.col.type.changes=false in its configuration, or "
    "drop the table there (its files stay), and sync again"
)


@dataclass(frozen=True, slots=True)
class HiveMetastore:
    """A metastore at one of some addresses, the first that answers."""

    addresses: tuple[HiveAddress, ...]

    @property
    def kind(self) -> str:
        return "hive"

    @classmethod
    def at(cls, uri: str) -> HiveMetastore:
        """The metastore of an address, or of several. Raises ConfigError for what is none."""
        return cls(hive_addresses(uri))

    def spelled(self, location: StoreLocation) -> str:
        return location.spark_uri()

    def parameters_for(self, config: TableConfig) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def create_database(self, database: str) -> None:
        made = ttypes.Database(name=database, description="made by Tideline", parameters={})

        def create(client: CheckedClient) -> None:
            try:
                client.get_database(database)
            except ttypes.NoSuchObjectException:
                client.create_database(made)

        self._answer(create, unless=ttypes.AlreadyExistsException)

    def table(self, name: TableName) -> RegisteredTable | None:
        found = self._answer(
            methodcaller("get_table", name.database, name.name),
            unless=ttypes.NoSuchObjectException,
        )
        return None if found is None else _value(found)

    def create_table(self, table: RegisteredTable) -> bool:
        def create(client: CheckedClient) -> bool:
            client.create_table(_hive_table(table))
            return True

        return bool(self._answer(create, unless=ttypes.AlreadyExistsException))

    def alter_table(self, seen: RegisteredTable, table: RegisteredTable) -> bool:
        name = table.name
        context = dict(_NO_STATISTICS)
        if table.partition_columns and table.columns != seen.columns:
            context["CASCADE"] = "true"
        if seen.last_commit is not None:
            # Of Hive 2.3.10 and 4: compared in the transaction of the change.
            context["expected_parameter_key"] = LAST_COMMIT
            context["expected_parameter_value"] = seen.last_commit

        def alter(client: CheckedClient) -> bool:
            stored = client.get_table(name.database, name.name)
            if _value(stored) != seen:
                return False
            _change(stored, table)
            environment = ttypes.EnvironmentContext(properties=context)
            try:
                client.alter_table_with_environment_context(
                    name.database, name.name, stored, environment
                )
            except ttypes.MetaException as error:
                if has_moved_on(error):
                    return False
                raise
            return True

        return bool(self._answer(alter, unless=ttypes.NoSuchObjectException))

    def partitions(
        self, table: RegisteredTable, values: Iterable[tuple[str, ...]] | None = None
    ) -> Iterator[RegisteredPartition]:
        for stored in self._stored_partitions(table, values):
            yield RegisteredPartition(_values(stored), str(stored.sd.location))

    def add_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        name = table.name
        for some in batches(partitions, _BATCH):
            request = ttypes.AddPartitionsRequest(
                dbName=name.database,
                tblName=name.name,
                parts=[_hive_partition(table, partition) for partition in some],
                ifNotExists=True,
                needResult=False,
            )
            self._answer(methodcaller("add_partitions_req", request))

    def move_partitions(
        self, table: RegisteredTable, partitions: Iterable[RegisteredPartition]
    ) -> None:
        name = table.name
        places = {partition.values: partition.location for partition in partitions}
        context = ttypes.EnvironmentContext(properties=dict(_NO_STATISTICS))
        stored_ones = self._stored_partitions(table, places)
        there = (stored for stored in stored_ones if _values(stored) in places)
        for some in batches(there, _BATCH):
            for stored in some:
                stored.sd.location = places[_values(stored)]
            self._answer(
                methodcaller(
                    "alter_partitions_with_environment_context",
                    *(name.database, name.name, some, context),
                )
            )

    def drop_partitions(self, table: RegisteredTable, values: Iterable[tuple[str, ...]]) -> None:
        name = table.name
        for each in values:
            self._answer(
                methodcaller("drop_partition", name.database, name.name, list(each), False),
                unless=ttypes.NoSuchObjectException,
            )

    def _stored_partitions(
        self, table: RegisteredTable, values: Iterable[tuple[str, ...]] | None
    ) -> Iterator[Any]:
        name = table.name
        columns = [column.name for column in table.partition_columns]
        if values is None:
            names = self._answer(methodcaller("get_partition_names", name.database, name.name, -1))
        else:
            names = [partition_name(columns, each) for each in values]
        for some in batches(names, _BATCH):
            yield from self._answer(
                methodcaller("get_partitions_by_names", name.database, name.name, some)
            )

    def _answer(
        self, ask: Callable[[CheckedClient], T], *, unless: type[Exception] | None = None
    ) -> Any:
        """The answer; None for the error `unless`. Raises as every metastore."""
        try:
            with Connection(self.addresses, CheckedClient) as client:
                return ask(client)
        except REFUSALS as error:
            words = words_of(error)
            hint = _INCOMPATIBLE_HINT if _INCOMPATIBLE in words else ""
            raise ConfigError(f"the metastore refuses: {words}{hint}") from error
        except TApplicationException as error:
            if error.type == UNKNOWN_METHOD:
                raise no_such_call(words_of(error)) from error
            message = f"the metastore fails: {words_of(error)}"
            raise StorageUnavailableError(message) from error
        except (TException, OSError, ValueError) as error:
            if unless is not None and isinstance(error, unless):
                return None
            message = f"the metastore does not answer: {words_of(error)}"
            raise StorageUnavailableError(message) from error


def _values(stored: Any) -> tuple[str, ...]:
    if stored.sd is None or stored.values is None:
        raise StorageUnavailableError("the metastore answers with a partition without a place")
    return tuple(stored.values)


def _value(stored: Any) -> RegisteredTable:
    sd = stored.sd
    if sd is None:
        message = "the metastore has something else of this name: drop it, or choose another name"
        raise UnsupportedTableError(message, value=f"{stored.dbName}.{stored.tableName}")
    serde = sd.serdeInfo
    return RegisteredTable(
        TableName(stored.dbName, stored.tableName),
        tuple(map(_column, sd.cols or ())),
        tuple(map(_column, stored.partitionKeys or ())),
        str(sd.location or ""),
        StorageFormat(
            str(sd.inputFormat or ""),
            str(sd.outputFormat or ""),
            str(serde.serializationLib or "") if serde else "",
            dict(serde.parameters or {}) if serde else {},
        ),
        dict(stored.parameters or {}),
        str(stored.tableType or ""),
    )


def _column(stored: Any) -> RegisteredColumn:
    return RegisteredColumn(str(stored.name), str(stored.type), str(stored.comment or ""))


def _hive_table(table: RegisteredTable) -> Any:
    made = ttypes.Table(
        dbName=table.name.database,
        tableName=table.name.name,
        owner=user_name(),
        partitionKeys=list(map(_field, table.partition_columns)),
        tableType=table.kind,
        sd=_descriptor(table, table.location),
    )
    made.parameters = dict(table.parameters)
    return made


def _hive_partition(table: RegisteredTable, partition: RegisteredPartition) -> Any:
    return ttypes.Partition(
        values=list(partition.values),
        dbName=table.name.database,
        tableName=table.name.name,
        sd=_descriptor(table, partition.location),
        parameters={},
    )


def _descriptor(table: RegisteredTable, location: str) -> Any:
    made = ttypes.StorageDescriptor(
        location=location, compressed=False, numBuckets=0, bucketCols=[], sortCols=[], parameters={}
    )
    made.serdeInfo = ttypes.SerDeInfo()
    _describe(made, table)
    return made


def _change(stored: Any, table: RegisteredTable) -> None:
    """Make what the metastore stores into `table`; what its values do not say stays."""
    stored.parameters = dict(table.parameters)
    stored.sd.serdeInfo = stored.sd.serdeInfo or ttypes.SerDeInfo()
    _describe(stored.sd, table)


def _describe(descriptor: Any, table: RegisteredTable) -> None:
    descriptor.cols = list(map(_field, table.columns))
    descriptor.inputFormat = table.format.input_format
    descriptor.outputFormat = table.format.output_format
    descriptor.serdeInfo.serializationLib = table.format.serde
    descriptor.serdeInfo.parameters = dict(table.format.serde_parameters)


def _field(column: RegisteredColumn) -> Any:
    return ttypes.FieldSchema(name=column.name, type=column.type, comment=column.comment)
