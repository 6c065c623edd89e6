"""Timeline layout 1 (table versions 3 to 6): instants in `.hoodie`, commit metadata as JSON.

    T.commit.requested         T.inflight                  T.commit
    T.deltacommit.requested    T.deltacommit.inflight      T.deltacommit
    T.compaction.requested     T.compaction.inflight       T.commit
    T.logcompaction.requested  T.logcompaction.inflight    T.deltacommit
                               T.savepoint.inflight        T.savepoint

and so on with the plain action word; clustering is a replacecommit in all three states
(Hudi: HoodieTimeline, HoodieActiveTimeline.VALID_EXTENSIONS_IN_ACTIVE_TIMELINE).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tideline.errors import ConfigError
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State, state_spellings
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time


@dataclass(frozen=True, slots=True)
class LayoutV1:
    """The codec of layout 1: `LAYOUT_V1`, and `READ_ONLY_V1` for tables that are only read."""

    is_written: bool = True
    version: ClassVar[int] = 1
    has_completion_times: ClassVar[bool] = False
    clustering: ClassVar[Action] = Action.REPLACECOMMIT
    directory: ClassVar[str] = ".hoodie"

    def parse(self, file_name: str) -> Instant | None:
        """The instant a file in `.hoodie` stands for, None when it is no instant file."""
        time, separator, suffix = file_name.partition(".")
        spelled = _SPELLING_TO_STATE.get(suffix)
        if not separator or spelled is None or not is_instant_time(time):
            return None
        action, state = spelled
        return Instant(InstantTime(time), action, state)

    def file_name(self, instant: Instant) -> str:
        """The name of the instant's file; a completed compaction is spelled `T.commit`.

        Raises ConfigError for a state the action has no file for (a requested savepoint).
        """
        suffix = _STATE_TO_SPELLING.get((_action_in_files(instant), instant.state))
        if suffix is None:
            raise ConfigError("timeline layout 1 has no file for this state", instant=instant)
        return f"{instant.time}.{suffix}"

    def path(self, instant: Instant) -> str:
        """The path of the instant's file, relative to the table base."""
        return f"{self.directory}/{self.file_name(instant)}"

    def has_requested_file(self, instant: Instant) -> bool:
        """Whether the instant's action begins with a requested file: all but savepoints do."""
        return (_action_in_files(instant), State.REQUESTED) in _STATE_TO_SPELLING

    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        """Commit metadata as Hudi's JSON."""
        return metadata.encode()

    def decode_commit(self, body: bytes, instant: Instant) -> CommitMetadata:
        """Commit metadata of an instant.

        An empty pending instant means no metadata yet; an empty completed one is a truncated
        file. Raises CorruptTableError naming the instant and its path.
        """
        if not body and instant.is_pending:
            return CommitMetadata()
        return CommitMetadata.decode(body, path=self.path(instant), instant=instant)


LAYOUT_V1 = LayoutV1()
READ_ONLY_V1 = LayoutV1(is_written=False)


def _action_in_files(instant: Instant) -> Action:
    if instant.is_completed or instant.action is Action.CLUSTERING:
        return instant.action.when_completed
    return instant.action


_STATE_TO_SPELLING = state_spellings(without=Action.CLUSTERING)
_SPELLING_TO_STATE = {suffix: spelled for spelled, suffix in _STATE_TO_SPELLING.items()}
