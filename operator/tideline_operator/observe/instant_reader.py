"""The completed instants of one table, each read once: what they say of ingests and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from tideline.errors import ConfigError, ObjectNotFoundError
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.services.past_cleans import read_last_clean
from tideline.hudi.services.registry import service_named
from tideline.hudi.services.savepoint.record import read_savepoint
from tideline.hudi.services.stored_facts import read_archival_holds
from tideline.hudi.services.table_history import CLUSTER, LOG_COMPACT, clusterings
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried import read_carried
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.sources.checkpoint import (
    CHECKPOINT_PREFIX,
    INGEST_KEY,
    Checkpoint,
    read_checkpoints,
    read_newest_checkpoints,
    with_others,
)
from tideline.services.explanation import NotDue
from tideline_operator.decide.observed import ObservedTable, TableHistory
from tideline_operator.decide.observed_facts import ObservedFacts
from tideline_operator.decide.service_settings import service_settings, wanted_services
from tideline_operator.observe.known_capabilities import KnownCapabilities
from tideline_operator.resources.resolved import ResolvedTable

_REMEMBERED_COMMITS = 10_000
_REMEMBERED_CHARACTERS = 4_000_000
"""A checkpoint is some thousand characters in most tables, and a million at the most."""


@dataclass(frozen=True, slots=True)
class _CommitContent:
    """What is kept of a completed commit."""

    extra_metadata: Mapping[str, str]
    operation_type: str | None
    has_logs: bool


@dataclass(slots=True)
class InstantMemory:
    """What is remembered of one table: completed instants never change."""

    commits: dict[InstantTime, _CommitContent] = field(default_factory=dict)
    savepoints: dict[InstantTime, str] = field(default_factory=dict)
    cleans: dict[InstantTime, LastClean | None] = field(default_factory=dict)
    counted: ActiveTimeline | None = None
    count_again_ms: int = 0
    without_logs: frozenset[InstantTime] | None = None
    """What was completed when the table had no log files; None when it may have some."""
    characters: int = 0
    capabilities: KnownCapabilities = field(default_factory=KnownCapabilities)

    def remember(self, time: InstantTime, content: _CommitContent) -> None:
        """Keep the content of a commit; everything before is dropped when it grows large."""
        self.characters += sum(map(len, content.extra_metadata.values()))
        if len(self.commits) >= _REMEMBERED_COMMITS or self.characters > _REMEMBERED_CHARACTERS:
            self.commits.clear()
            self.characters = 0
        self.commits[time] = content


@dataclass(frozen=True, slots=True)
class InstantReader:
    """Reads the completed instants of one timeline, each once."""

    table: ResolvedTable
    hoodie: HoodieTable
    timeline: ActiveTimeline
    memory: InstantMemory

    def checkpoints(self) -> dict[str, Checkpoint]:
        """The newest checkpoint of each ingest, by its name."""

        def read_archived() -> Mapping[str, str]:
            if not self.timeline.has_archive:
                return {}
            return read_carried(self.hoodie.commits.archive(), CHECKPOINT_PREFIX)

        def read(instant: Instant) -> Mapping[str, str]:
            return self._content(instant).extra_metadata

        ingests = self.table.spec.ingest
        names = {item.name for item in ingests} | {item.renamed_from or "" for item in ingests}
        found = read_checkpoints(self.timeline, read, names - {""}, read_archived)
        for item in ingests:
            if (source := self.table.sources.get(item.name)) is not None:
                known = item.name, item.renamed_from or ""
                found = with_others(found, known, source, self.timeline, read)
        # Files that other ingests took matter to an insert, which must not insert them again.
        inserts = any(item.operation.inserts for item in ingests)
        others = read_newest_checkpoints(self.timeline, read, read_archived) if inserts else {}
        return {**others, **found}

    def clusterings(self) -> frozenset[InstantTime]:
        """The replacecommits that are clustering, pending or completed."""
        replaced = self.timeline.of(Action.REPLACECOMMIT).completed()
        done = {
            instant.time for instant in replaced if self._content(instant).operation_type == CLUSTER
        }
        return clusterings(self.hoodie, self.timeline.pending()) | done

    def history(self, found: frozenset[InstantTime]) -> TableHistory:
        """What decides which service is due; `found` are the clusterings."""
        return TableHistory(
            timeline=self.timeline,
            properties=self.hoodie.config.properties,
            clusterings=found,
            log_compactions=self._log_compactions(),
            lacks_logs=self._lacks_logs(),
            last_clean=self._last_clean(),
            ingests=self._ingests_since_restore(),
            zone=self.hoodie.instants.known_zone(self.timeline),
        )

    def with_archival_holds(self, seen: ObservedTable, now_ms: int) -> ObservedTable:
        """Add the archival holds, where archival would be due without them."""
        spec, archival = self.table.spec, service_named("archival")
        if archival not in wanted_services(spec):
            return seen
        read = Settings({**seen.history.properties, **service_settings(spec)})
        try:
            if isinstance(archival.due(ObservedFacts(seen, now_ms), read), NotDue):
                return seen
            holds = read_archival_holds(self.hoodie, self.timeline)
        except ConfigError:
            return seen  # the planner gets it again, and reports it
        except ObjectNotFoundError:
            return seen  # archived by another process at this moment
        return replace(seen, history=replace(seen.history, archival_holds=holds))

    def savepoints(self) -> dict[str, str]:
        """Instants by the name of their savepoint; one without a name is named after its
        instant."""
        names = {}
        for instant in self.timeline.of(Action.SAVEPOINT).completed():
            if instant.time not in self.memory.savepoints:
                comment = read_savepoint(self.hoodie, instant).comment
                self.memory.savepoints[instant.time] = comment
            names[self.memory.savepoints[instant.time] or str(instant.time)] = str(instant.time)
        return names

    def _log_compactions(self) -> frozenset[InstantTime]:
        if service_named("log_compaction") not in wanted_services(self.table.spec):
            return frozenset()
        last = self.timeline.of(Action.COMMIT).completed().last()
        deltas = self.timeline.of(Action.DELTACOMMIT).completed()
        return frozenset(
            instant.time
            for instant in (deltas.after(last.time) if last else deltas)
            if self._content(instant).operation_type == LOG_COMPACT
        )

    def _lacks_logs(self) -> bool:
        """Whether the table had no log files when they were counted, and no commit since wrote
        one. A rollback or a restore may have brought some back: they are counted again."""
        memory = self.memory
        if memory.without_logs is None:
            return False
        if not any(service.merges_logs for service in wanted_services(self.table.spec)):
            return False
        completed = self.timeline.completed()
        for instant in completed:
            if instant.time not in memory.without_logs and self._may_bring_logs(instant):
                memory.without_logs = None
                return False
        memory.without_logs = frozenset(instant.time for instant in completed)
        return True

    def _may_bring_logs(self, instant: Instant) -> bool:
        if instant.action is Action.DELTACOMMIT:
            return self._content(instant).has_logs
        return instant.action in (Action.ROLLBACK, Action.RESTORE)

    def _last_clean(self) -> LastClean | None:
        newest = self.timeline.of(Action.CLEAN).completed().last()
        if newest is None:
            return None
        known = self.memory.cleans
        if newest.time not in known:
            known.clear()
            known[newest.time] = read_last_clean(self.hoodie, self.timeline)
        return known[newest.time]

    def _ingests_since_restore(self) -> frozenset[InstantTime]:
        restore = self.timeline.of(Action.RESTORE).completed().last()
        if self.table.spec.restore_to is None or restore is None:
            return frozenset()
        later = self.timeline.of(*COMMIT_ACTIONS).completed().after(restore.time)
        return frozenset(
            instant.time for instant in later if INGEST_KEY in self._content(instant).extra_metadata
        )

    def _content(self, instant: Instant) -> _CommitContent:
        commits = self.memory.commits
        if instant.time not in commits:
            metadata = self.hoodie.timelines.read_commit(instant)
            kept = {
                name: text
                for name, text in metadata.extra_metadata.items()
                if name == INGEST_KEY or name.startswith(CHECKPOINT_PREFIX)
            }
            has_logs = any(map(_is_of_log, metadata.write_stats))
            content = _CommitContent(kept, metadata.operation_type, has_logs)
            self.memory.remember(instant.time, content)
            return content
        return commits[instant.time]


def _is_of_log(stat: WriteStat) -> bool:
    return stat.log_version is not None or PurePosixPath(stat.path or "").name.startswith(".")
