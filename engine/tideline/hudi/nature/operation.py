"""What can be done with a table, by the names that dossiers and refusals use."""

from __future__ import annotations

from enum import Enum


class Operation(Enum):
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

    @property
    def changes_table(self) -> bool:
        """Whether it takes the table lock and changes anything."""
        return self not in (Operation.READ, Operation.MERGE_LOGS, Operation.CHECK)

    @property
    def merges_rows(self) -> bool:
        """Whether it always decides which of several rows of one key stays."""
        return self in (
            Operation.MERGE_LOGS,
            Operation.WRITE,
            Operation.COMPACTION,
            Operation.LOG_COMPACTION,
        )

    @property
    def writes_rows(self) -> bool:
        """Whether files with rows come of it."""
        return self in (
            Operation.WRITE,
            Operation.COMPACTION,
            Operation.LOG_COMPACTION,
            Operation.CLUSTERING,
        )

    @property
    def makes_instants(self) -> bool:
        """Whether it makes an instant, or depends on the age of one."""
        return self.changes_table and self is not Operation.SAVEPOINT

    @property
    def sentence(self) -> str:
        """What it is, for people."""
        return _SENTENCES[self]

    def __str__(self) -> str:
        return self.value


_SENTENCES = {
    Operation.READ: "reads of base files",
    Operation.MERGE_LOGS: "reads of file groups with logs",
    Operation.WRITE: "writes of rows",
    Operation.DROP_PARTITIONS: "dropping partitions",
    Operation.COMPACTION: "compaction",
    Operation.LOG_COMPACTION: "log compaction",
    Operation.CLUSTERING: "clustering",
    Operation.CLEANING: "cleaning",
    Operation.ARCHIVAL: "archival",
    Operation.ROLLBACK: "rollback of failed writes",
    Operation.TTL: "partitions that expire",
    Operation.SAVEPOINT: "savepoints",
    Operation.RESTORE: "restore",
    Operation.CHECK: "check",
    Operation.REPAIR: "repair",
}
