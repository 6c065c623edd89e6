"""Permissions: what may be done with a table, by the names that reports and refusals use."""

from __future__ import annotations

from enum import Enum


class Permission(Enum):
    """One thing that is allowed or refused; the value is its name in JSON, which does not change.

    READ: rows of file groups without log files, and base files alone. MERGE_LOGS: rows of file
    groups with log files, in reads and in clusterings. DROP_PARTITIONS: `delete_partition`.
    """

    READ = "read"
    MERGE_LOGS = "merge_logs"
    WRITE = "write"
    DROP_PARTITIONS = "drop_partitions"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEANING = "cleaning"
    ARCHIVAL = "archival"
    ROLLBACK = "rollback"
    TTL = "ttl"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    CHECK = "check"
    REPAIR = "repair"
    UPGRADE = "upgrade"

    @property
    def changes_table(self) -> bool:
        """Whether it takes the table lock and changes anything."""
        return self not in (Permission.READ, Permission.MERGE_LOGS, Permission.CHECK)

    @property
    def merges_rows(self) -> bool:
        """Whether it always decides which of several rows of one key stays."""
        return self in (
            Permission.MERGE_LOGS,
            Permission.WRITE,
            Permission.COMPACTION,
            Permission.LOG_COMPACTION,
        )

    @property
    def writes_rows(self) -> bool:
        """Whether files with rows come of it."""
        return self in (
            Permission.WRITE,
            Permission.COMPACTION,
            Permission.LOG_COMPACTION,
            Permission.CLUSTERING,
        )

    @property
    def may_write_rows(self) -> bool:
        """Whether files with rows may come of it: a change of the version compacts first."""
        return self.writes_rows or self is Permission.UPGRADE

    @property
    def makes_instants(self) -> bool:
        """Whether it makes an instant, or depends on the age of one."""
        return self.changes_table and self is not Permission.SAVEPOINT

    @property
    def sentence(self) -> str:
        """What it is, for people."""
        return _SENTENCES[self]

    def __str__(self) -> str:
        return self.value


_SENTENCES = {
    Permission.READ: "reads of base files",
    Permission.MERGE_LOGS: "reads of file groups with logs",
    Permission.WRITE: "writes of rows",
    Permission.DROP_PARTITIONS: "dropping partitions",
    Permission.COMPACTION: "compaction",
    Permission.LOG_COMPACTION: "log compaction",
    Permission.CLUSTERING: "clustering",
    Permission.CLEANING: "cleaning",
    Permission.ARCHIVAL: "archival",
    Permission.ROLLBACK: "rollback of failed writes",
    Permission.TTL: "partitions that expire",
    Permission.SAVEPOINT: "savepoints",
    Permission.RESTORE: "restore",
    Permission.CHECK: "check",
    Permission.REPAIR: "repair",
    Permission.UPGRADE: "changes of its version",
}
