"""What a change of a table's version would do: its steps, and what speaks against it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.table.layout.known_layouts import TABLE_VERSIONS, layout_of_version
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.table.table_config import MERGE_MODE, TableConfig, TableType
from tideline.hudi.upgrade.property_changes import Changes, changed_properties


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """From one version to another. `changes` are those of the properties.

    `moves_timeline`: it is rewritten in the other layout. `compacts`: no file group may have
    logs then; `forgets`: nor may older slices, so that time travel begins at the change.
    `dropped` are partitions of the metadata table; `remakes_metadata_table`: it is made again with
    the partition `files`.
    """

    before: TableLayout
    after: TableLayout
    changes: Changes
    compacts: bool = False
    forgets: bool = False
    dropped: tuple[str, ...] = ()
    remakes_metadata_table: bool = False

    @property
    def moves_timeline(self) -> bool:
        return self.before.timeline.version != self.after.timeline.version

    @property
    def steps(self) -> tuple[str, ...]:
        """What is done, in order, for people."""
        lost = [name for name in self.dropped if name != "files"]
        return tuple(
            text
            for wanted, text in (
                (self.compacts, "compact all file groups that have logs"),
                (self.forgets, "clean older versions of all files: time travel starts over"),
                (self.moves_timeline, "write timeline and archive in the other layout"),
                (self.dropped, "switch the metadata table off"),
                (True, "change the properties, from where on the table has the other version"),
                (self.moves_timeline, "delete the timeline in the former layout"),
                (self.remakes_metadata_table, "rebuild the metadata table, with `files`"),
                (lost, f"leave to its next writer of Hudi: {', '.join(lost)}"),
            )
            if wanted
        )

    def to_json_object(self) -> dict[str, Any]:
        """The plan for machines."""
        return {
            "from_version": self.before.table_version,
            "to_version": self.after.table_version,
            "steps": list(self.steps),
            "properties": dict(sorted(self.changes.items())),
        }


def plan_version_change(config: TableConfig, version: int) -> VersionPlan | None:
    """The plan of a change; None where the table has the version already.

    Raises ConfigError for a version that no table is made of here, UnsupportedTableError for a
    table that cannot have it.
    """
    if version not in TABLE_VERSIONS:
        known = ", ".join(map(str, TABLE_VERSIONS))
        raise ConfigError(f"a table is brought to version {known}", value=version)
    config.check_readable()
    before = config.layout
    if before.table_version == version:
        return None
    changes = changed_properties(config, version)
    properties = {**config.properties, **changes}
    after = layout_of_version(version, {k: v for k, v in properties.items() if v is not None})
    plan = VersionPlan(before, after, changes)
    _require_apart(config, plan)
    has_logs = config.table_type is TableType.MERGE_ON_READ
    dropped = config.metadata_partitions_in_work
    return VersionPlan(
        before,
        after,
        changes,
        compacts=has_logs and (plan.moves_timeline or MERGE_MODE in changes),
        forgets=has_logs and plan.moves_timeline and after.names.logs_name_slice,
        dropped=dropped,
        remakes_metadata_table=bool(dropped) and before.is_written,
    )


def _require_apart(config: TableConfig, plan: VersionPlan) -> None:
    """Both timelines are there for a while, in folders of their own.

    In layout 1 the instants lie in `.hoodie` itself, in layout 2 the history in their folder.
    """
    if not plan.moves_timeline:
        return
    first, second = sorted(
        (plan.before, plan.after), key=lambda table_layout: table_layout.timeline.version
    )
    archive = first.archive.folder.strip("/")
    timeline = second.timeline.directory.removeprefix(".hoodie").strip("/")
    inner = second.archive.folder.strip("/").removeprefix(timeline).strip("/")
    folders = (archive, timeline, inner)
    apart = archive.partition("/")[0] != timeline.partition("/")[0]
    if not apart or any(folder in ("", "metadata") or folder.startswith(".") for folder in folders):
        raise UnsupportedTableError(
            "timeline and archive of both layouts need folders of their own in .hoodie",
            table=config.table_uri or None,
            value=f"{archive}, {timeline}, {inner}",
        )
