"""The service `rewrite_manifests`: partitions lie together in few manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.iceberg.services.due_facts import IcebergFacts, IcebergFiles
from tideline.iceberg.services.option_reader import OptionReader
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import MIN_MANIFESTS, NAME, ManifestOptions
from tideline.iceberg.services.service import IcebergContext, RewriteService
from tideline.iceberg.table.table_operations import committed_location
from tideline.services.explanation import Due, NotDue
from tideline.services.run import ServiceRun
from tideline.wording import counted


class RewriteManifests(RewriteService):
    """Regroups manifests by partition. Other rewrites make manifests."""

    name = NAME
    operation_kind = "rewrite-manifests"
    follows: ClassVar[frozenset[str]] = frozenset(
        {"rewrite_data_files", "rewrite_position_deletes"}
    )
    whenever_asked: ClassVar[Mapping[str, str]] = {MIN_MANIFESTS: "1"}
    files_called = "manifest"

    def options(self, settings: Mapping[str, str]) -> ManifestOptions:
        """The settings, typed. Raises ConfigError."""
        read = OptionReader(settings)
        options = ManifestOptions(manifests_min=read.integer(MIN_MANIFESTS, 1, at_least=1))
        read.refuse_others("a rewrite of manifests")
        return options

    def due(self, facts: IcebergFacts, settings: Mapping[str, str]) -> Due | NotDue:
        found, least = super().due(facts, settings), self.options(settings).manifests_min
        if isinstance(found, NotDue) or facts.files is None:
            return found
        outlook = facts.files.outlooks[self.name]
        if outlook.files_before >= least:
            return found
        total = counted(facts.files.manifests, "manifest")
        taken = f"{outlook.files_before:,} of {total} small or overlapping"
        return NotDue(f"{taken}; a rewrite takes at least {least:,}")

    def nothing_to_gain(self, files: IcebergFiles) -> NotDue:
        return NotDue(f"nothing to gain: {counted(files.manifests, 'manifest')}")

    def execute(self, context: IcebergContext) -> ServiceRun:
        table, options = context.table, self.options(context.settings)
        run = execute_manifests(table.operations, options, clock=context.clock)
        if committed_location(run.outcome, table=table.metadata.location) is not None:
            return ServiceRun(self, (run,))
        return ServiceRun(self, not_due=NotDue("no manifests are worth rewriting"))


REWRITE_MANIFESTS = RewriteManifests()
