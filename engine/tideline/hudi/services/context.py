"""What a service is given to work with: one table under one set of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.recovery.execute import FailedWrites, RolledBack
from tideline.hudi.recovery.recover import execute_recovery
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.engine import ServiceEngine
from tideline.hudi.services.stored_facts import StoredFacts
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.table_writer import TableWriter
from tideline.storage.heartbeat import is_heartbeat_dead


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """A table, its settings with those of a caller over them, and the engine that moves rows.

    `given` are the caller's settings alone, for a service that writes through `writer`.
    """

    writer: TableWriter
    given: Mapping[str, str]
    settings: Settings
    config: ServiceConfig
    write_config: WriteConfig
    policy: FailedWrites
    engine: ServiceEngine

    @classmethod
    def of(
        cls, writer: TableWriter, given: Mapping[str, str], engine: ServiceEngine
    ) -> ServiceContext:
        """Raises ConfigError naming the setting that cannot be read."""
        settings = Settings(writer.index.service_settings(given))
        write_config = writer.index.for_services(given)
        return cls(
            writer,
            given,
            settings,
            ServiceConfig.from_settings(settings),
            write_config,
            writer.failed_writes(write_config),
            engine,
        )

    @property
    def table(self) -> HoodieTable:
        return self.writer.table

    def facts(self, timeline: ActiveTimeline) -> StoredFacts:
        """What triggers use, read when asked for."""
        return StoredFacts(self.table, timeline, self.policy)

    def is_alive(self, instant: Instant) -> bool:
        """Whether a process is running this pending instant, by its heartbeat."""
        table, limits = self.table, self.config.heartbeat
        return not is_heartbeat_dead(table.store, str(instant.time), table.clock, limits)

    @contextmanager
    def planning(self, permission: Permission) -> Iterator[ActiveTimeline]:
        """Holds the lock while a plan is made and written, of this timeline; failed writes are
        rolled back first."""
        with self.table.lock(self.config.lock_timing).acquire():
            timeline = admit(self.table, permission)
            undone = execute_recovery(self.table, timeline, self.policy)
            yield self.table.timeline() if undone else timeline

    def roll_back_failed_writes(self) -> tuple[RolledBack, ...]:
        """Undo what dead writers left, and plans that cannot be read. Call under the lock."""
        policy = replace(self.policy, gives_up_unreadable=True)
        return execute_recovery(self.table, self.table.timeline(), policy)
