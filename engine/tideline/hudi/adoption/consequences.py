"""What would break once Tideline works on a table with others, and what prevents it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tideline.hudi.adoption.table_state import PartitionState, TableState
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.table_capabilities import TableCapabilities
from tideline.hudi.metadata_table.index_names import BELIEVED
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.known_zone import ZoneBasis
from tideline.wording import counted

_WRITES_BEGUN = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


@dataclass(frozen=True, slots=True)
class Consequence:
    """Something that happens, and what to do about it."""

    what: str
    do: str


def consequences_of(capabilities: TableCapabilities, state: TableState) -> tuple[Consequence, ...]:
    """In the order in which they are met. Nothing of a table that is refused, or only read."""
    if not capabilities.is_changed:
        return ()
    return tuple(
        found
        for look in (
            _writers,
            _failed_writes,
            _metadata_table,
            _index_builds,
            _index,
            _flink,
            _zone,
            _neighbours,
        )
        for found in look(capabilities, state)
    )


def _writers(capabilities: TableCapabilities, _: TableState) -> Iterator[Consequence]:
    version = capabilities.config.layout.table_version
    yield Consequence(
        "Hudi 1.x upgrades a table at its next write to the newest version that it knows",
        f"give its writers hoodie.write.table.version={version} and "
        "hoodie.write.auto.upgrade=false",
    )
    if capabilities.may(Permission.CLEANING) is not None:
        return
    lock = capabilities.writers.lock
    known = f" (now {lock}, by {capabilities.writers.lock_known_from})"
    yield Consequence(
        "writers of Hudi that take no lock, or another one than Tideline, overwrite its commits "
        f"unnoticed{known if lock else '; which one they take is not on disk'}",
        "give them hoodie.write.concurrency.mode=optimistic_concurrency_control and the "
        "StorageBasedLockProvider, or let one engine write at a time",
    )


def _failed_writes(capabilities: TableCapabilities, state: TableState) -> Iterator[Consequence]:
    if capabilities.may(Permission.ROLLBACK) is not None:
        return
    yield Consequence(
        "writers of Hudi leave heartbeats only with lazy cleaning of failed writes; without one a "
        "write that is under way counts as dead, and is rolled back",
        "give them hoodie.clean.failed.writes.policy=LAZY",
    )
    silent = [
        write
        for write in state.pending
        if write.is_silent and write.instant.action in _WRITES_BEGUN
    ]
    if silent:
        yield Consequence(
            f"{counted(len(silent), 'pending write')} without a sign of life (the oldest is "
            f"{silent[0].instant.time}) would be rolled back by the first write or service",
            "make sure that its writer has ended",
        )


def _metadata_table(capabilities: TableCapabilities, state: TableState) -> Iterator[Consequence]:
    partitions = capabilities.config.metadata_partitions
    if not partitions and not state.has_metadata_table:
        return
    if capabilities.config.keeps_metadata_table:
        yield from map(_partition, state.metadata_partitions)
        return
    yield Consequence(
        f"the first commit here switches Hudi's metadata table off ({', '.join(partitions)})"
        if partitions
        else "what is left of a metadata table that is switched off is deleted",
        "Hudi lists files until a writer with hoodie.metadata.enable=true makes it again, without "
        "the indexes that SQL created",
    )


def _index_builds(_: TableCapabilities, state: TableState) -> Iterator[Consequence]:
    """Those that are requested stop nothing."""
    for build in state.pending:
        if build.instant.action is Action.INDEXING and build.instant.state is State.INFLIGHT:
            yield Consequence(
                f"commits here wait for the index that Hudi builds since {build.instant.time}",
                "let it finish; where its writer has died, `tideline check` names the command that "
                "ends the build",
            )


def _partition(found: PartitionState) -> Consequence:
    """Of one that is kept what it takes of each commit, of another one why it goes."""
    if not found.is_dropped:
        return Consequence(
            f"commits keep {found.name}: each reads {found.reads}, and writes {found.writes}",
            f"where that is too much, drop it: tideline index drop {found.name}",
        )
    what = f"the first commit here drops {found.name}: {found.why_dropped}"
    if found.name.startswith(BELIEVED):
        return Consequence(
            what,
            "no writer of Hudi makes it again: where it is needed, run CREATE INDEX after the last "
            "commit of Tideline",
        )
    return Consequence(what, "a writer of Hudi whose settings name it makes it again")


def _index(capabilities: TableCapabilities, _: TableState) -> Iterator[Consequence]:
    if capabilities.index.name is None and capabilities.may(Permission.WRITE) is None:
        yield Consequence(
            "no file says which index other writers use; where theirs is GLOBAL_SIMPLE or "
            "GLOBAL_BLOOM, a row whose partition changes is stored twice by another one",
            "declare theirs once, with tideline declare --index, or ask for uniqueness: Table in "
            "the LakeTable",
        )


def _flink(capabilities: TableCapabilities, _: TableState) -> Iterator[Consequence]:
    if not capabilities.writers.has_flink or capabilities.index.buckets is not None:
        return
    if capabilities.may(Permission.WRITE) is None:
        yield Consequence(
            "a Flink job with its default index knows keys from its own state: one that another "
            "writer inserts while the job runs is stored again when the job writes it",
            "let only the job insert keys, or restart it with index.bootstrap.enabled=true",
        )


def _zone(capabilities: TableCapabilities, _: TableState) -> Iterator[Consequence]:
    if capabilities.zone is not None and capabilities.zone.basis is ZoneBasis.UNSURE:
        yield Consequence(
            "new instants are UTC, and nothing shows whether others are: next to writers in "
            "another zone instants would run backwards; what depends on age waits",
            "declare the zone of the other writers",
        )


def _neighbours(_: TableCapabilities, state: TableState) -> Iterator[Consequence]:
    for root, name in sorted(state.foreign.nested.items()):
        yield Consequence(
            f"a table of {name} lies below this one, in {root}: Tideline leaves it alone, other "
            "engines may take its files for this table's",
            "move it elsewhere",
        )
    if state.outside_partitions:
        yield Consequence(
            f"{counted(state.outside_partitions, 'data file')} in folders without partition "
            "metadata are seen by no reader, and left alone",
            "look at them, and delete them if nothing needs them",
        )
