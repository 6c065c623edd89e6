"""Writes to one open table, by its own settings and those that a caller gives over them.

1. `given`: the caller's settings, known, agreeing with the table, by their first names.
2. `planned`: which operation they ask for, and the settings it runs with.
3. `request` and `write`, or `delete_partitions`: one transaction around it (`commit_write`).

It also knows whose failed writes may be rolled back, and does so when asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tideline.errors import ConflictError
from tideline.hudi.capabilities.guard import admit, require_by_properties
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.recovery.execute import FailedWrites, RolledBack, plan_instant_rollback
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.recovery.recover import execute_recovery, find_recoverable_writes
from tideline.hudi.table.agreement import check_agreement
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TIMEZONE
from tideline.hudi.write.commit_write import commit_write, repeated_write
from tideline.hudi.write.config import FailedWritesPolicy, WriteConfig
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.execute import execute_write
from tideline.hudi.write.index_choice import IndexChoice
from tideline.hudi.write.matched_rows import MatchedRows, by_stored_place
from tideline.hudi.write.planned_write import wanted_operation
from tideline.hudi.write.replace_file_groups import PartitionChoice, execute_delete_partition
from tideline.hudi.write.token import TokenSearch
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Requirement, WriteDone, WriteRequest
from tideline.settings.gate import check_given
from tideline.settings.setting import SettingPlace


class TableWriter:
    """Writes of one table. What was found out about its index is kept for the next ones."""

    def __init__(self, table: HoodieTable) -> None:
        self.table = table
        self.index = IndexChoice(table)

    def given(self, options: Mapping[str, str] | None, place: SettingPlace) -> dict[str, str]:
        """What a caller gives, by first names; it may declare the zone.

        Raises ConfigError for what is unknown, refused or contradicts the table.
        """
        given = check_given(options, place)
        check_agreement(given, self.table.config)
        self.table.instants.declare_zone(given.get(TIMEZONE))
        return given

    def config_for_rows(self, options: Mapping[str, str] | None) -> WriteConfig:
        """The table's own settings, with `options` over them, for a write of rows.

        An option `tideline.timezone` declares the zone of this open table from now on. Raises
        ConfigError for an option that is unknown, refused or contradicts the table, for a zone that
        cannot be, when one would place rows by another index than the bucket index the table was
        built with, and where its number of buckets has to be declared; UnsupportedTableError for a
        bucket index that is not written.
        """
        return self.index.for_rows(self.given(options, SettingPlace.WRITE))

    def planned_write(
        self, operation: WriteOperation | str | None, options: Mapping[str, str] | None
    ) -> tuple[WriteOperation, WriteConfig]:
        """The operation that a write with these options is, and its settings; raises as both."""
        return self.planned(operation, self.given(options, SettingPlace.WRITE))

    def planned(
        self, operation: WriteOperation | str | None, given: Mapping[str, str]
    ) -> tuple[WriteOperation, WriteConfig]:
        """The operation that a write with these checked settings is, and what it runs with.

        Raises ConfigError, and UnsupportedTableError for what the table is not for.
        """
        wanted = wanted_operation(operation, given, self.index.plain(given))
        require_by_properties(self.table, wanted.permission)
        if wanted is WriteOperation.DELETE_PARTITION:
            return wanted, self.index.for_partitions(given)
        config = self.index.for_rows(given)
        # A bucket index that was recognised may refuse what the settings alone do not.
        return wanted_operation(operation, given, config), config

    def planned_delete(self, given: Mapping[str, str]) -> tuple[WriteOperation, WriteConfig]:
        """The same for a delete of rows that a condition matches, which are found by the place they
        are stored at."""
        operation = wanted_operation(WriteOperation.DELETE, given, self.index.plain(given))
        require_by_properties(self.table, operation.permission)
        return operation, by_stored_place(self.index.for_rows(given, are_located=True))

    def request(
        self,
        operation: WriteOperation,
        config: WriteConfig,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        require: Requirement | None = None,
        token: str | None = None,
        matched: MatchedRows | None = None,
    ) -> WriteRequest:
        """What is to be committed. Raises ConfigError for a token that cannot be."""
        search = TokenSearch(self.table, token, operation) if token is not None else None
        metadata = extra_metadata or {}
        return WriteRequest(operation, config, "", metadata, require, search, matched)

    def write(self, engine: WriteEngine, request: WriteRequest) -> WriteDone:
        """Write the engine's batch as one commit. Raises as `commit_write` does."""
        from tideline.hudi.table.schema import arrow_to_avro, record_name

        name, namespace = record_name(self.table.config.name)
        schema = arrow_to_avro(engine.schema, name=name, namespace=namespace)
        return commit_write(
            self.table,
            replace(
                request,
                schema_json=json.dumps(schema),
                matched=engine.matched or request.matched,
                schema_change=engine.schema_change,
            ),
            lambda transaction: execute_write(transaction, engine),
            self.failed_writes(request.config),
        )

    def write_with_retries(
        self, open_engine: Callable[[], WriteEngine], request: WriteRequest
    ) -> WriteDone:
        """Write a batch as one commit, several times over while others are faster.

        An engine is opened for each attempt: what others wrote is looked up again. Nothing is
        written where the request's token names a write that took place. Raises as `write`.
        """
        repeated = repeated_write(self.table, request)
        if repeated is not None:
            return repeated
        attempts_left = request.config.conflict_retries
        while True:
            engine = open_engine()
            try:
                return self.write(engine, request)
            except ConflictError:
                if attempts_left <= 0:
                    raise
                attempts_left -= 1
            finally:
                engine.release()

    def delete_partitions(
        self, request: WriteRequest, partitions: Sequence[str] | PartitionChoice
    ) -> WriteDone:
        """Drop whole partitions, named or chosen inside the transaction, as one commit."""
        schema_json = self.table.schemas.newest_json(self.table.timeline()) or ""
        return commit_write(
            self.table,
            replace(request, schema_json=schema_json),
            lambda transaction: execute_delete_partition(transaction, partitions),
            self.failed_writes(request.config),
        )

    def failed_writes(self, config: WriteConfig | None = None) -> FailedWrites:
        """Whose pending writes may be rolled back."""
        config = config or self.index.plain(None)
        return FailedWrites(
            eager=config.failed_writes_policy is FailedWritesPolicy.EAGER,
            never=config.failed_writes_policy is FailedWritesPolicy.NEVER,
            heartbeat=config.heartbeat,
        )

    def plan_recovery(self) -> tuple[RollbackPlan, ...]:
        """What `recover` would roll back now."""
        timeline = self.table.timeline()
        failed = find_recoverable_writes(self.table, timeline, self.failed_writes())
        return tuple(plan_instant_rollback(self.table, instant) for instant in failed)

    def recover(self, gone: Iterable[str]) -> tuple[RolledBack, ...]:
        """Roll back what dead writers left; see `LakeTable.recover`."""
        config = self.index.plain(None)
        policy = replace(self.failed_writes(config), gives_up_unreadable=True, gone=frozenset(gone))
        with self.table.lock(config.lock_timing).acquire():
            timeline = admit(self.table, Permission.ROLLBACK)
            return execute_recovery(self.table, timeline, policy)
