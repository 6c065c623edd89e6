"""The service `rewrite_position_deletes`: fewer delete files, none that deletes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.iceberg.services.due_facts import IcebergFiles
from tideline.iceberg.services.rewrite_position_deletes.plan import NAME, delete_rewrite_options
from tideline.iceberg.services.service import IcebergContext, RewriteService
from tideline.services.explanation import NotDue
from tideline.services.run import ServiceRun
from tideline.wording import counted


class RewritePositionDeletes(RewriteService):
    """Rewrites the position deletes of tables of version 2. Those of data files that are rewritten
    need no rewrite."""

    name = NAME
    operation_kind = "rewrite-deletes"
    holds_rows = True
    follows: ClassVar[frozenset[str]] = frozenset({"rewrite_data_files"})
    whenever_asked: ClassVar[Mapping[str, str]] = {"min-input-files": "2"}
    files_called = "position delete file"

    def nothing_to_gain(self, files: IcebergFiles) -> NotDue:
        reason = f"nothing to gain: {counted(files.delete_files, 'delete file')}"
        return NotDue(reason if files.delete_files else "there are no deletes")

    def execute(self, context: IcebergContext) -> ServiceRun:
        # Work that moves no rows runs where Arrow is not installed.
        from tideline.iceberg.services.rewrite_position_deletes.execute import (
            execute_position_deletes,
        )

        options = delete_rewrite_options(context.settings, context.table.metadata.properties)
        run = execute_position_deletes(context.table.operations, options, clock=context.clock)
        run.refuse_failure(context.table.metadata.location)
        if run.files_removed:
            return ServiceRun(self, (run,))
        reason = "; ".join(("no position deletes are worth rewriting", *run.plan.left))
        return ServiceRun(self, not_due=NotDue(reason))


REWRITE_POSITION_DELETES = RewritePositionDeletes()
