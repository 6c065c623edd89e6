"""Idempotency tokens: a caller names a write, so that repeating it never writes it twice.

The token stands in the extra metadata of the commit, and of the inflight instant before it. A write
that is given one looks for it

1. under the lock when it begins, in completed commits, active and archived: found, the write took
   place already; and in pending instants: found, another process is running it, or its outcome is
   not known yet (who is dead was rolled back a moment before);
2. under the lock again when it completes: of two writes with one token that began together, the
   first to complete wins.

Archived commits are searched as far back as `archived_tokens` remembers.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.bounded.given_texts import require_token
from tideline.errors import ConfigError, ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.hudi.commit.outcome import Committed
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived_tokens import TOKEN_KEY, TOKENS_MAX, read_archived_tokens
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.write_operation import WriteOperation
from tideline.storage.heartbeat import heartbeat_age_ms


class TokenSearch:
    """Looks for the commit that one token names; what was read once is not read again."""

    def __init__(self, table: HoodieTable, token: str, operation: WriteOperation) -> None:
        """Raises ConfigError for what is no token."""
        require_token(token)
        self.token = token
        self.notes: tuple[str, ...] = ()
        """What the caller should know of how far back was searched."""
        self._table = table
        self._operation = operation
        self._without: set[InstantTime] = set()

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """How the token stands in a commit."""
        return {TOKEN_KEY: self.token}

    def find(self, timeline: ActiveTimeline, *, is_locked: bool) -> Committed | None:
        """The commit that has the token, newest first, archived ones last.

        Raises ConfigError when another kind of write has it, CorruptTableError.
        """
        commits = timeline.of(*COMMIT_ACTIONS).completed()
        for instant in reversed(commits.instants):
            if instant.time in self._without:
                continue
            metadata = self._table.commits.read(instant)
            if metadata.extra_metadata.get(TOKEN_KEY) == self.token:
                return self._committed(instant, metadata)
            self._without.add(instant.time)
        return self._find_archived(is_locked) if timeline.has_archive else None

    def require_not_pending(self, timeline: ActiveTimeline, limits: HeartbeatLimits) -> None:
        """Raise ConflictError when a pending write has the token: its writer is not known to be
        dead."""
        for instant in timeline.pending():
            if instant.state is not State.INFLIGHT or self._pending_token(instant) != self.token:
                continue
            age_ms = heartbeat_age_ms(self._table.store, str(instant.time), self._table.clock)
            left_s = max(0.0, limits.silent_s_max - (age_ms or 0) / 1000)
            raise ConflictError(
                "a write with this token is under way, or its end is not known yet; its writer "
                f"counts as dead once it has been silent for {left_s:.0f} s more: repeat the write "
                "with the same token",
                table=self._table.location.uri,
                instant=instant,
                value=self.token,
            )

    def _find_archived(self, is_locked: bool) -> Committed | None:
        archived = self._table.commits.archive()
        tokens = read_archived_tokens(archived, remembers=is_locked)
        time = tokens.instants.get(self.token)
        if time is None:
            if tokens.has_dropped:
                oldest = min(tokens.instants.values())
                self.notes = (
                    f"the token was not found among the newest {TOKENS_MAX:,} of archived commits; "
                    f"those of commits before {oldest} are not remembered",
                )
            return None
        entry = archived.find(frozenset({time})).get(time)
        if entry is None:
            raise CorruptTableError(
                "the archive lacks a commit that had a token",
                table=self._table.location.uri,
                instant=time,
            )
        return self._committed(entry.instant, entry.commit_metadata())

    def _committed(self, instant: Instant, metadata: CommitMetadata) -> Committed:
        if metadata.operation_type != self._operation.json_name:
            raise ConfigError(
                "the token is that of another kind of write, "
                f"{metadata.operation_type.lower()}; a token names one write only",
                table=self._table.location.uri,
                instant=instant,
                value=self.token,
            )
        return Committed(instant, metadata)

    def _pending_token(self, instant: Instant) -> str | None:
        try:
            return self._table.timelines.read_commit(instant).extra_metadata.get(TOKEN_KEY)
        except (ObjectNotFoundError, CorruptTableError):
            # Completed or rolled back in between, or a plan in another format: none of ours.
            return None
