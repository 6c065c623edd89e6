"""A Hudi table in a store: its properties, its instants and commits, its files and its schema.

Everything here works without Arrow except a table's schema, so that services which move no rows run
in a small image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tideline.clock import Clock
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.table.table_commits import TableCommits
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.table.table_files import CommittedFiles, TableFiles
from tideline.hudi.table.table_instants import TableInstants
from tideline.hudi.table.table_properties import TableProperties
from tideline.hudi.table.table_schemas import TableSchemas
from tideline.hudi.timeline.active import ActiveTimeline, TimelineStore
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lock_timing import LockTiming
from tideline.storage.location import StoreLocation
from tideline.storage.lock import TableLock
from tideline.storage.object_store import ObjectStore


class HoodieTable:
    """One open table. Holds no connection state of its own; reads are always current."""

    def __init__(
        self,
        location: StoreLocation,
        properties: TableProperties,
        committed_files: CommittedFiles,
    ) -> None:
        self.location = location
        self.store: ObjectStore = properties.store
        self.clock: Clock = properties.clock
        self.properties = properties
        self.instants = TableInstants(properties)
        self.commits = TableCommits(properties, self.instants)
        self.files = TableFiles(location, properties, self.commits, committed_files)
        self.schemas = TableSchemas(properties, self.commits)
        self.writer = ""
        """What heartbeats of this process name it; see `tideline.storage.heartbeat`."""
        self.before_deletion: Callable[[Collection[str]], None] = _let_go
        """Called with the paths of committed files before they are deleted; may refuse by raising.

        A layer above that keeps track of these files sets it.
        """

    @property
    def uri(self) -> str:
        return self.store.uri

    @property
    def hadoop_uri(self) -> str:
        """The table's address as Hudi spells it in plans; in-memory tables have no such address."""
        in_memory = self.location.scheme == "memory"
        return self.location.uri if in_memory else self.location.spark_uri()

    @property
    def config(self) -> TableConfig:
        """The properties as they were read last, typed."""
        return self.properties.config

    @property
    def layout(self) -> TableLayout:
        """How the table lies on disk; everything that differs between table versions."""
        return self.properties.layout

    @property
    def timelines(self) -> TimelineStore:
        """The objects of the active timeline."""
        return self.instants.timelines

    def timeline(self, own: InstantTime | None = None) -> ActiveTimeline:
        """The active timeline as it is now, `own` being an instant of the caller's."""
        return self.instants.load(own)

    def lock(self, timing: LockTiming | None = None) -> TableLock:
        """The table's lock, not acquired yet, with the table's own timing unless given."""
        return self.properties.lock(timing)


def _let_go(paths: Collection[str]) -> None:
    """Nobody above keeps track of files."""
