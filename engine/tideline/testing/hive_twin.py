"""A Hive metastore in this process, as much of one as Tideline asks for: tables, partitions, locks.

It compares `expected_parameter_key` in a change as Hive 2.3.10 does. What a real one makes of the
same calls, tests with `hive_metastore_server` say; here a test says what happens in between.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hive_metastore import ttypes

from tideline.testing.hostile_metastore import Answer, HostileMetastore

MOVED_ON = "The table has been modified. The parameter value for key '{}' is"


@dataclass(slots=True)
class HiveTwin(HostileMetastore):
    """Serves within a `with` block. `before` has what a test does before a call is answered."""

    databases: dict[str, Any] = field(default_factory=lambda: {"default": ttypes.Database()})
    tables: dict[tuple[str, str], Any] = field(default_factory=dict)
    partitions: dict[tuple[str, str], dict[tuple[str, ...], Any]] = field(default_factory=dict)
    locks: set[int] = field(default_factory=set)
    contexts: list[dict[str, str]] = field(default_factory=list)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        for name in _CALLS:
            self.answers[name] = self._answering(name)

    def names(self, database: str, table: str) -> list[tuple[str, ...]]:
        """The values of a table's partitions."""
        return sorted(self.partitions.get((database, table), {}))

    def _answering(self, name: str) -> Answer:
        def answer(asked: Any) -> Any:
            if (first := self.before.pop(name, None)) is not None:
                first()
            with self._lock:
                return _CALLS[name](self, asked)

        return answer


def _get_database(twin: HiveTwin, asked: Any) -> Any:
    found = twin.databases.get(asked.name)
    return found or ttypes.NoSuchObjectException(asked.name)


def _create_database(twin: HiveTwin, asked: Any) -> Any:
    if asked.database.name in twin.databases:
        return ttypes.AlreadyExistsException(asked.database.name)
    twin.databases[asked.database.name] = asked.database
    return None


def _get_table(twin: HiveTwin, asked: Any) -> Any:
    found = twin.tables.get((asked.dbname, asked.tbl_name))
    return copy.deepcopy(found) or ttypes.NoSuchObjectException(f"{asked.tbl_name} not found")


def _create_table(twin: HiveTwin, asked: Any) -> Any:
    name = asked.tbl.dbName, asked.tbl.tableName
    if name in twin.tables:
        return ttypes.AlreadyExistsException(str(name))
    twin.tables[name] = asked.tbl
    twin.partitions[name] = {}
    return None


def _alter_table(twin: HiveTwin, asked: Any) -> Any:
    name = asked.dbname, asked.tbl_name
    stored, context = twin.tables.get(name), dict(asked.environment_context.properties)
    if stored is None:
        return ttypes.InvalidOperationException(f"table {name} doesn't exist")
    twin.contexts.append(context)
    key = context.get("expected_parameter_key")
    if key and stored.parameters.get(key) != context["expected_parameter_value"]:
        return ttypes.MetaException(MOVED_ON.format(key))
    del twin.tables[name]
    renamed = asked.new_tbl.dbName, asked.new_tbl.tableName
    twin.tables[renamed] = asked.new_tbl
    twin.partitions[renamed] = twin.partitions.pop(name, {})
    return None


def _drop_table(twin: HiveTwin, asked: Any) -> Any:
    if twin.tables.pop((asked.dbname, asked.name), None) is None:
        return ttypes.NoSuchObjectException(asked.name)
    return None


def _get_partition_names(twin: HiveTwin, asked: Any) -> Any:
    return [_path(twin, asked, values) for values in twin.names(asked.db_name, asked.tbl_name)]


def _get_partitions_by_names(twin: HiveTwin, asked: Any) -> Any:
    stored = twin.partitions[asked.db_name, asked.tbl_name]
    return [
        partition
        for values, partition in stored.items()
        if _path(twin, asked, values) in asked.names
    ]


def _add_partitions(twin: HiveTwin, asked: Any) -> Any:
    stored = twin.partitions[asked.request.dbName, asked.request.tblName]
    for partition in asked.request.parts:
        stored.setdefault(tuple(partition.values), partition)
    return ttypes.AddPartitionsResult()


def _alter_partitions(twin: HiveTwin, asked: Any) -> Any:
    stored = twin.partitions[asked.db_name, asked.tbl_name]
    stored.update({tuple(partition.values): partition for partition in asked.new_parts})


def _drop_partition(twin: HiveTwin, asked: Any) -> Any:
    stored = twin.partitions[asked.db_name, asked.tbl_name]
    if stored.pop(tuple(asked.part_vals), None) is None:
        return ttypes.NoSuchObjectException(str(asked.part_vals))
    return True


def _take_lock(twin: HiveTwin, _: Any) -> Any:
    number = len(twin.asked)
    state = ttypes.LockState.WAITING if twin.locks else ttypes.LockState.ACQUIRED
    twin.locks.add(number)
    return ttypes.LockResponse(lockid=number, state=state)


def _check_lock(twin: HiveTwin, asked: Any) -> Any:
    is_first = min(twin.locks) == asked.rqst.lockid
    state = ttypes.LockState.ACQUIRED if is_first else ttypes.LockState.WAITING
    return ttypes.LockResponse(lockid=asked.rqst.lockid, state=state)


def _unlock(twin: HiveTwin, asked: Any) -> Any:
    if asked.rqst.lockid not in twin.locks:
        return ttypes.NoSuchLockException("no such lock")
    twin.locks.discard(asked.rqst.lockid)
    return None


def _get_all_tables(twin: HiveTwin, asked: Any) -> Any:
    return [name for database, name in twin.tables if database == asked.db_name]


def _get_table_objects(twin: HiveTwin, asked: Any) -> Any:
    return [twin.tables[asked.dbname, name] for name in asked.tbl_names]


def _path(twin: HiveTwin, asked: Any, values: tuple[str, ...]) -> str:
    keys = twin.tables[asked.db_name, asked.tbl_name].partitionKeys
    return "/".join(f"{key.name}={value}" for key, value in zip(keys, values, strict=True))


_CALLS: dict[str, Callable[[HiveTwin, Any], Any]] = {
    "get_database": _get_database,
    "create_database": _create_database,
    "get_table": _get_table,
    "create_table": _create_table,
    "alter_table_with_environment_context": _alter_table,
    "drop_table": _drop_table,
    "get_partition_names": _get_partition_names,
    "get_partitions_by_names": _get_partitions_by_names,
    "add_partitions_req": _add_partitions,
    "alter_partitions_with_environment_context": _alter_partitions,
    "drop_partition": _drop_partition,
    "lock": _take_lock,
    "check_lock": _check_lock,
    "unlock": _unlock,
    "get_all_databases": lambda twin, _: list(twin.databases),
    "get_all_tables": _get_all_tables,
    "get_table_objects_by_name": _get_table_objects,
}
