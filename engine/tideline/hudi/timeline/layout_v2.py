"""Timeline layout 2 (table versions 8 and 9): instants in a folder of their own, bodies as Avro.

    T.commit.requested         T.inflight                  T_C.commit
    T.deltacommit.requested    T.deltacommit.inflight      T_C.deltacommit
    T.compaction.requested     T.compaction.inflight       T_C.commit
    T.logcompaction.requested  T.logcompaction.inflight    T_C.deltacommit
    T.clustering.requested     T.clustering.inflight       T_C.replacecommit
                               T.savepoint.inflight        T_C.savepoint

and so on with the plain action word. T is when the instant was requested, C when it completed.
Source: Hudi's InstantFileNameGeneratorV2, InstantGeneratorV2, CommitMetadataSerDeV2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State, state_spellings
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time

DEFAULT_DIRECTORY = ".hoodie/timeline"


@dataclass(frozen=True, slots=True)
class LayoutV2:
    """The codec of layout 2, in the folder that the table's properties name."""

    directory: str = DEFAULT_DIRECTORY
    version: ClassVar[int] = 2
    is_written: ClassVar[bool] = True
    has_completion_times: ClassVar[bool] = True
    clustering: ClassVar[Action] = Action.CLUSTERING

    def parse(self, file_name: str) -> Instant | None:
        """The instant a file of the folder stands for, None when it is no instant file.

        Raises UnsupportedTableError for a completed instant whose name lacks the completion time:
        only development versions of Hudi 1.0 wrote such, and nothing else says the time.
        """
        times, separator, suffix = file_name.partition(".")
        spelled = _SPELLING_TO_STATE.get(suffix)
        if not separator or spelled is None:
            return None
        action, state = spelled
        requested, has_completion, completed = times.partition("_")
        if not is_instant_time(requested) or (has_completion and not is_instant_time(completed)):
            return None
        if state.is_pending:
            return None if has_completion else Instant(InstantTime(requested), action, state)
        if not has_completion:
            raise UnsupportedTableError(
                "a completed instant without its completion time in the name is not read",
                instant=requested,
                path=f"{self.directory}/{file_name}",
            )
        return Instant(InstantTime(requested), action, state, InstantTime(completed))

    def file_name(self, instant: Instant) -> str:
        """The name of the instant's file; a completed compaction is spelled `T_C.commit`.

        Raises ConfigError for a state the action has no file for (a requested savepoint), and for
        a completed instant of unknown completion time.
        """
        action = instant.action.when_completed if instant.is_completed else instant.action
        suffix = _STATE_TO_SPELLING.get((action, instant.state))
        if suffix is None:
            raise ConfigError("timeline layout 2 has no file for this state", instant=instant)
        if instant.is_pending:
            return f"{instant.time}.{suffix}"
        if instant.completion_time is None:
            raise ConfigError("no completion time is known of this instant", instant=instant)
        return f"{instant.time}_{instant.completion_time}.{suffix}"

    def path(self, instant: Instant) -> str:
        """The path of the instant's file, relative to the table base."""
        return f"{self.directory}/{self.file_name(instant)}"

    def has_requested_file(self, instant: Instant) -> bool:
        """Whether the instant's action begins with a requested file: all but savepoints do."""
        return (instant.action, State.REQUESTED) in _STATE_TO_SPELLING

    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        """The Avro container of one record, with the schema that Hudi 1.x writes."""
        replaces = metadata.partition_to_replace_file_ids is not None
        name = "HoodieReplaceCommitMetadata" if replaces else "HoodieCommitMetadata"
        return encode_container(name, metadata.to_record())

    def decode_commit(self, body: bytes, instant: Instant) -> CommitMetadata:
        """Commit metadata of an instant; an empty file is metadata without anything in it.

        Hudi reads empty completed files so, too. Raises CorruptTableError naming the instant and
        its path.
        """
        if not body:
            return CommitMetadata()
        path = self.path(instant)
        return CommitMetadata.from_record(
            decode_container(body, path=path), path=path, instant=instant
        )


_STATE_TO_SPELLING = state_spellings()
_SPELLING_TO_STATE = {suffix: spelled for spelled, suffix in _STATE_TO_SPELLING.items()}
