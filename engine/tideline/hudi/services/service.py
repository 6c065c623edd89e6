"""The table services, by the names people and settings use."""

from __future__ import annotations

from enum import Enum

from tideline.errors import ConfigError
from tideline.hudi.nature.operation import Operation
from tideline.hudi.timeline.instant import Action


class Service(Enum):
    """One table service; the value is its name on the command line.

    Declared in the order in which Hudi runs them after a commit: failed writes are rolled back
    before it, then clean, archive, compact, compact logs, cluster, and partitions expire.
    """

    ROLLBACK = "rollback"
    CLEANING = "cleaning"
    ARCHIVAL = "archival"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    TTL = "ttl"

    @classmethod
    def parse(cls, text: str) -> Service:
        """The service of this name. Raises ConfigError naming the known ones."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            known = ", ".join(service.value for service in cls)
            raise ConfigError(f"unknown service; there are {known}", value=text) from None

    @property
    def pending_action(self) -> Action | None:
        """What its pending instants are called in layout 1; None when it makes none of its own."""
        return _PENDING_ACTIONS.get(self)

    @property
    def permission(self) -> Operation:
        """What has to be allowed of the table."""
        return Operation(self.value)

    @property
    def moves_rows(self) -> bool:
        """Whether it needs an engine that reads and writes rows."""
        return self in (Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING)

    def __str__(self) -> str:
        return self.value


_PENDING_ACTIONS = {
    Service.ROLLBACK: Action.ROLLBACK,
    Service.CLEANING: Action.CLEAN,
    Service.COMPACTION: Action.COMPACTION,
    Service.LOG_COMPACTION: Action.LOGCOMPACTION,
    Service.CLUSTERING: Action.REPLACECOMMIT,
    Service.TTL: Action.REPLACECOMMIT,
}
