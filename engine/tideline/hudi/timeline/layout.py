"""What a timeline layout is: how instants are spelled as files, and commit metadata as bytes.

Layout 1 belongs to table versions 3 to 6, layout 2 to versions 8 and 9. Everything above works on
`Instant` and `CommitMetadata` values and never on file names.
"""

from __future__ import annotations

from typing import Protocol

from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant


class TimelineLayout(Protocol):
    """One on-disk form of a timeline."""

    @property
    def version(self) -> int:
        """The value of `hoodie.timeline.layout.version`."""

    @property
    def is_written(self) -> bool:
        """Whether Tideline makes instants in this layout; else `TimelineStore` refuses to."""

    @property
    def has_completion_times(self) -> bool:
        """Whether names of completed instants say when these completed."""

    @property
    def clustering(self) -> Action:
        """The action of a clustering that is pending."""

    @property
    def directory(self) -> str:
        """Where the active timeline's files are, relative to the table base."""

    def parse(self, file_name: str) -> Instant | None:
        """The instant a file stands for, None when the file is no instant."""

    def file_name(self, instant: Instant) -> str:
        """The file's name. Raises ConfigError for an instant this layout has no file for."""

    def path(self, instant: Instant) -> str:
        """The file's path, relative to the table base."""

    def has_requested_file(self, instant: Instant) -> bool:
        """Whether the action of `instant` begins with a requested file."""

    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        """The body of an instant that carries commit metadata."""

    def decode_commit(self, body: bytes, instant: Instant) -> CommitMetadata:
        """Commit metadata of an instant.

        Raises CorruptTableError naming the instant and its path.
        """
