"""LakeTable's status: what was observed and done. All of it can be computed again when lost."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tideline_operator.resources.field import described
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.spent import Spent

OPERATIONS_MAX = 20
CLAIMS_MAX = 65
"""The location, and two places of each ingest."""
NO_TABLE = "NoTable"
"""Reason of conditions while there is no table at the location."""
RUN_FAILED = "failed"
"""How the result of a run of a service begins that failed."""
_MESSAGE_LENGTH_MAX = 4096


class ConditionType(Enum):
    """Conditions of a table."""

    READY = "Ready"
    ADOPTED = "Adopted"
    INGESTING = "Ingesting"
    HEALTHY = "Healthy"
    SERVICES_CURRENT = "ServicesCurrent"
    PAUSED = "Paused"
    SPEC_VALID = "SpecValid"


class ConditionStatus(Enum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class OperationPhase(Enum):
    """How far an operation has come. PENDING: recorded, its Job not created yet."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition."""

    type: ConditionType = described("Which condition.")
    status: ConditionStatus = described("Whether it holds.")
    reason: str = described("One word in CamelCase.", length_max=128)
    message: str = described("A sentence for people.", default="", length_max=_MESSAGE_LENGTH_MAX)
    last_transition_time: Timestamp = described("When `status` last changed.", length_max=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingInstant:
    """An instant that is not complete."""

    time: str = described("Instant time.", length_max=32)
    action: str = described("Action.", length_max=32)
    state: str = described("requested or inflight.", length_max=32)
    is_dead: bool = described("Whether its writer has ended.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStatus:
    """The timeline in short."""

    latest: str | None = described(
        "Newest completed instant, or snapshot.", default=None, length_max=32
    )
    latest_action: str | None = described("Its action.", default=None, length_max=32)
    completed: int = described(
        "Completed instants in the active timeline, or snapshots.", default=0
    )
    pending_count: int = described("How many instants are pending.", default=0, always_written=True)
    pending: tuple[PendingInstant, ...] = described(
        "Instants under way or left behind.", default=(), items_max=100
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The table's files in short; sizes in bytes."""

    files: int = described(
        "Base or data files of the latest snapshot.", default=0, always_written=True
    )
    bytes: int = described("Their size.", default=0)
    small_file_percent: int = described("Share of files below the small-file limit.", default=0)
    log_files: int = described("Log files that wait for compaction.", default=0)
    delete_files: int = described("Delete files of an Iceberg table.", default=0)
    manifests: int = described("Manifests of an Iceberg table's snapshot.", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """What a run did, in numbers; sizes in bytes."""

    files_before: int = described("Files that were rewritten.", default=0, always_written=True)
    bytes_before: int = described("Bytes that were read.", default=0)
    files_after: int = described("Files that were written.", default=0)
    bytes_after: int = described("Their size.", default=0)
    files_deleted: int = described("Files that were deleted.", default=0)
    bytes_deleted: int = described("Their size.", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSaving:
    """What a run saves readers and the store, and what it took."""

    files_opened: int = described(
        "Files fewer that a scan of the table opens.", default=0, always_written=True
    )
    bytes_scanned: int = described("Bytes fewer that it reads.", default=0)
    delta_files: int = described("Log or delete files fewer that every read merges.", default=0)
    delta_bytes: int = described("Their size.", default=0)
    objects_listed: int = described("Objects fewer in folders that are listed.", default=0)
    bytes_stored: int = described("Bytes fewer in the store.", default=0)
    benefit_bytes: int = described("All of it as bytes that a scan no longer reads.", default=0)
    core_ms: int = described("Milliseconds of processor cores that the run took.", default=0)
    requests: int = described("Requests to the store that the run sent.", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """One table service."""

    is_due: bool = described("Whether it should run now.", default=False, always_written=True)
    reason: str = described("Why it is due or not.", default="", length_max=1024)
    last_run: Timestamp | None = described("Last run.", default=None, length_max=40)
    last_result: str = described("Its result.", default="", length_max=1024)
    last_figures: RunCounts | None = described(
        "Counts and sizes of the last run that succeeded.", default=None
    )
    last_saving: RunSaving | None = described(
        "What the last run that did something saved and took.", default=None
    )
    next_run: Timestamp | None = described("Next run, if known.", default=None, length_max=40)
    rerun: int = described("The number in spec.rerun that was run last.", default=0)

    @property
    def found_nothing_ms(self) -> int | None:
        """When the last run ended, if there was nothing for it to do."""
        did_something = self.last_figures is not None or self.last_result.startswith(RUN_FAILED)
        return None if did_something or self.last_run is None else self.last_run.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatus:
    """One operation: written before it starts, updated when it ends."""

    id: str = described("Deterministic id.", length_max=63)
    kind: str = described("create, ingest, rollback, compaction and so on.", length_max=32)
    subject: str = described(
        "Name of the ingest or of the savepoint, if it is one.", default="", length_max=63
    )
    rerun: int | None = described("Its number in spec.rerun, if that asked for it.", default=None)
    phase: OperationPhase = described("How far it has come.")
    attempt: int = described("Attempts so far, this one included.", default=1)
    failures: int = described("Attempts that failed in a row before this one.", default=0)
    started_at: Timestamp = described("Start of this attempt.", length_max=40)
    finished_at: Timestamp | None = described("End of it.", default=None, length_max=40)
    retry_at: Timestamp | None = described(
        "Next attempt, if it failed.", default=None, length_max=40
    )
    exit_code: int = described("0, or the exit code of its failure.", default=0)
    error: str = described("The class of its failure.", default="", length_max=64)
    is_safe_to_retry: bool = described("Whether a retry may help without a change.", default=False)
    memory_bytes: int = described("Memory its pods may ask for together.", default=0)
    pod_uid: str = described("Its driver's pod.", default="", length_max=64)
    worker: str = described(
        "The warm worker that carries it out; empty if it has a Job of its own.",
        default="",
        length_max=63,
    )
    digest: str = described("SHA-256 of what was handed to the worker.", default="", length_max=64)
    instant: str | None = described("Instant it committed.", default=None, length_max=32)
    message: str = described("What came of it.", default="", length_max=_MESSAGE_LENGTH_MAX)

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.kind} {self.subject}".strip()

    @property
    def is_under_way(self) -> bool:
        """Whether it has been recorded and has not ended."""
        return self.phase in (OperationPhase.PENDING, OperationPhase.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestStatus:
    """One ingest."""

    polled_at: Timestamp | None = described("Last listing.", default=None, length_max=40)
    cron_after: Timestamp | None = described(
        "A cron trigger is due at its first minute after this: the last listing, before it the "
        "time when the ingest was declared.",
        default=None,
        length_max=40,
    )
    checkpoint: str = described("Generation and watermark.", default="", length_max=2048)
    lag_files: int = described(
        "Files, or partitions of topics, that wait.", default=0, always_written=True
    )
    lag_bytes: int = described("Their size, of files.", default=0)
    lag_records: int = described(
        "Records of topics, or changes of a table of Postgres, that wait.", default=0
    )
    oldest_file_at: Timestamp | None = described(
        "When the oldest of them landed.", default=None, length_max=40
    )
    oldest_record_at: Timestamp | None = described(
        "The time that the oldest of these records has, or when the oldest change was committed, "
        "as a look found it in the last seconds.",
        default=None,
        length_max=40,
    )
    unsettled_files: int = described("Files that may still be being written.", default=0)
    quarantined_files: int = described("Files noted in <landing>/_quarantine/.", default=0)
    quarantined_rows: int = described(
        "Rows of ingested files that were set aside, kept in <landing>/_quarantine/.", default=0
    )
    late_files: int = described(
        "Files that arrived with a time so old that they look like files ingested earlier. Touch "
        "or copy the missing ones to have them ingested.",
        default=0,
    )
    retained_bytes: int | None = described(
        "Write-ahead log that the server of Postgres keeps for the slot.", default=None
    )
    safe_bytes: int | None = described(
        "How much more it writes before it gives the slot up (`max_slot_wal_keep_size`); absent "
        "where it never does.",
        default=None,
    )
    slot_state: str = described(
        "What the server says of the slot's log: reserved, extended, unreserved or lost.",
        default="",
        length_max=16,
    )
    slot_risk: str = described(
        "What to do where the server is about to give the slot up.", default="", length_max=1024
    )
    held_up: str = described(
        "What keeps records from being read, and what to do: partitions without a leader, "
        "transactions that nobody ends.",
        default="",
        length_max=1024,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTable:
    """A table that this resource created, or found to be as it declares."""

    location: str = described("Server and path of its place.", length_max=4096)
    identity: str = described("Which table it is, from what never changes in it.", length_max=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedClaim:
    """A place of this resource at which the store has accepted its credentials."""

    address: str = described("Server and path of the place.", length_max=4096)
    accepted_at: Timestamp = described(
        "Since when. Of two resources that want one place, the one that was accepted first has it.",
        length_max=40,
    )
    is_only_read: bool = described(
        "Whether it is only read: a landing prefix, or a table that a catalog keeps.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionStatus:
    """How far the deletion of the data has come."""

    seen_at: Timestamp = described(
        "When the operator saw that the resource is to go: its deadline counts from here.",
        length_max=40,
    )
    is_verified: bool = described(
        "Whether the table was found to be the owned one before anything was deleted.",
        default=False,
    )
    message: str = described("What is still to do.", default="", length_max=_MESSAGE_LENGTH_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTableStatus:
    """Observed state of one table."""

    observed_generation: int = described("Generation this status is about.", default=0)
    last_valid_spec: Mapping[str, object] = described(
        "The newest spec that was valid. It stays in force while spec is not valid.",
        default_factory=dict,
        free_form=True,
    )
    conditions: tuple[Condition, ...] = described(
        "Conditions.", default=(), items_max=16, item_key="type"
    )
    lag_files: int | None = described(
        "Files that wait, over all ingests.", default=None, always_written=True
    )
    timeline: TimelineStatus = described("Timeline.", default_factory=TimelineStatus)
    table: TableStatus | None = described("Files.", default=None)
    owned: OwnedTable | None = described(
        "The table that deletionPolicy: Delete is about. No other is ever deleted.", default=None
    )
    claims: tuple[AcceptedClaim, ...] = described(
        "Places that are this resource's, because a store has accepted its credentials there.",
        default=(),
        items_max=CLAIMS_MAX,
    )
    deletion: DeletionStatus | None = described("The deletion under way.", default=None)
    services: Mapping[str, ServiceStatus] = described(
        "Table services by name.", default_factory=dict, items_max=16
    )
    operations: tuple[OperationStatus, ...] = described(
        "Operations, newest last.", default=(), items_max=OPERATIONS_MAX
    )
    spent: Mapping[str, Spent] = described(
        "What operations have taken so far, by kind.", default_factory=dict, items_max=32
    )
    ingest: Mapping[str, IngestStatus] = described(
        "Ingests by name.", default_factory=dict, items_max=64
    )

    @property
    def workers(self) -> tuple[str, ...]:
        """The warm workers that have operations of the table."""
        return tuple(
            operation.worker
            for operation in self.operations
            if operation.worker and operation.is_under_way
        )
