"""What a service of Iceberg tables is: one object, in a folder of its own, named in `registry`.

Its settings are the arguments and options of Iceberg's procedure of that purpose, as texts: ages
instead of moments, so that an operation that waited does what it would do now.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tideline.clock import Clock
from tideline.errors import ConfigError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import OWNER
from tideline.iceberg.services.due_facts import IcebergFacts, IcebergFiles
from tideline.iceberg.services.table_setting import SHARED, shares_files
from tideline.iceberg.table.open_table import IcebergTable
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.services.service import Concurrency, Service

if TYPE_CHECKING:
    # Brings in Arrow.
    from tideline.iceberg.services.rewrite_data_files.group_outcome import RewriteEngine

DRY_RUN = "dry_run"
"""The setting of a run that only counts what it would do."""
_PUBLICATION = "a Hudi table is published as this one, and its own services maintain both"


@dataclass(frozen=True, slots=True)
class IcebergContext:
    """What a service works with: a table and the settings of the run.

    `on_spark` gives the engine of large rewrites; `summary` goes into the snapshots that are made.
    """

    table: IcebergTable
    settings: Mapping[str, str]
    clock: Clock
    on_spark: Callable[[], RewriteEngine]
    summary: Mapping[str, str] = field(default_factory=dict)


class IcebergService(Service):
    """A service of Iceberg tables. Each plans again when it runs: only what is due is done."""

    table_format = "iceberg"
    concurrency = Concurrency.LATER_WRITES
    """A commit validates: what is appended meanwhile stays."""
    arguments: ClassVar[frozenset[str]] = frozenset()
    """Its settings that Iceberg's procedure takes as arguments; all others are options."""
    counts_files: ClassVar[bool] = False
    """Whether its trigger needs the files of the newest snapshot to be counted."""

    @abstractmethod
    def due(self, facts: IcebergFacts, settings: Mapping[str, str]) -> Due | NotDue:
        """Whether its trigger says yes. Pure; raises ConfigError and UnsupportedTableError."""

    @abstractmethod
    def plan(self, context: IcebergContext, facts: IcebergFacts) -> Explanation | NotDue:
        """What it would do now; changes nothing."""

    @abstractmethod
    def execute(self, context: IcebergContext) -> ServiceRun:
        """Do what is due.

        Raises ConflictError when another writer got in the way, UnknownOutcomeError,
        FailedAfterCommitError, ConfigError, CorruptTableError and UnsupportedTableError.
        """

    def refusal(self, metadata: TableMetadata) -> str | None:
        """Why the table is not for it, None where it is."""
        if OWNER in metadata.properties:
            return _PUBLICATION
        return SHARED if self.deletes_files and shares_files(metadata) else None

    def stored_settings(self, settings: Mapping[str, str]) -> dict[str, Any]:
        given = {name: text for name, text in settings.items() if name != DRY_RUN}
        return {
            "arguments": {name: given[name] for name in given if name in self.arguments},
            "options": {name: given[name] for name in given if name not in self.arguments},
            "dryRun": settings.get(DRY_RUN) == "true",
        }

    def read_settings(self, content: Mapping[str, Any]) -> dict[str, str]:
        given = {**content["arguments"], **content["options"]}
        is_dry = {DRY_RUN: "true"} if content["dryRun"] else {}
        return {str(name): str(text) for name, text in {**given, **is_dry}.items()}


class RewriteService(IcebergService):
    """A service that puts few files in the place of many; `files_called` is one of them."""

    counts_files = True
    files_called: ClassVar[str]

    def plan(self, context: IcebergContext, facts: IcebergFacts) -> Explanation | NotDue:
        found = self.due(facts, context.settings)
        if isinstance(found, NotDue) or facts.files is None:
            return NotDue(found.reason)
        outlook = facts.files.outlooks[self.name]
        size_bytes = outlook.bytes_before
        return Explanation(
            found.reason, bytes_read=size_bytes, bytes_written=size_bytes, benefit=outlook.benefit
        )

    def due(self, facts: IcebergFacts, settings: Mapping[str, str]) -> Due | NotDue:  # noqa: ARG002
        if facts.files is None:
            return NotDue("the newest snapshot is not counted yet")
        problem = facts.files.problems.get(self.name)
        if isinstance(problem, ConfigError):
            raise problem
        if problem is not None:
            return NotDue(str(problem))
        outlook = facts.files.outlooks.get(self.name)
        if outlook is None:
            return self.nothing_to_gain(facts.files)
        return Due(outlook.promise(self.files_called))

    @abstractmethod
    def nothing_to_gain(self, files: IcebergFiles) -> NotDue:
        """Why there is no rewrite."""
