"""The service `rewrite_data_files`: files of good sizes, without deleted rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.errors import ConflictError
from tideline.iceberg.services.due_facts import IcebergFacts, IcebergFiles
from tideline.iceberg.services.rewrite_data_files.arguments import ARGUMENTS, RewriteArguments
from tideline.iceberg.services.rewrite_data_files.options import NAME
from tideline.iceberg.services.service import IcebergContext, RewriteService
from tideline.iceberg.table.table_operations import unknown_error
from tideline.services.explanation import Due, NotDue
from tideline.services.run import ServiceRun
from tideline.wording import counted


class RewriteDataFiles(RewriteService):
    """Rewrites data files that are too small, too large or full of deletes."""

    name = NAME
    operation_kind = "rewrite"
    moves_rows = True
    arguments = ARGUMENTS
    whenever_asked: ClassVar[Mapping[str, str]] = {"min-input-files": "2"}
    files_called = "data file"

    def due(self, facts: IcebergFacts, settings: Mapping[str, str]) -> Due | NotDue:
        found = super().due(facts, settings)
        if isinstance(found, NotDue) or facts.files is None:
            return found
        return Due("; ".join((found.reason, *facts.files.left)))

    def nothing_to_gain(self, files: IcebergFiles) -> NotDue:
        if not files.files:
            return NotDue("there are no data files")
        small = f"{_percent(files.small_files, files.files)} are small"
        deleted = f"{_percent(files.files_with_deletes, files.files)} have deletes"
        reason = f"nothing to gain: of {counted(files.files, 'data file')} {small}, {deleted}"
        if files.quiet_at_ms is not None:
            reason += "; partitions that other writers changed lately are left to them (quietFor)"
        return NotDue("; ".join((reason, *files.left)))

    def execute(self, context: IcebergContext) -> ServiceRun:
        # Work that moves no rows runs where Arrow is not installed.
        from tideline.iceberg.services.rewrite_data_files.in_process import engine_for
        from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files

        asked = RewriteArguments.of(context.settings, context.table.metadata)
        report = rewrite_data_files(
            context.table,
            asked.options,
            engine_for(asked.options, context.on_spark),
            where=asked.where,
            summary=context.summary,
            clock=context.clock,
        )
        if report.files_rewritten:
            return ServiceRun(self, (report,))
        if unknown := next(
            (
                failed_commit.unknown
                for failed_commit in report.failed_commits
                if failed_commit.unknown
            ),
            None,
        ):
            table, what = context.table.metadata.location, "a part of the rewrite is committed"
            raise unknown_error(unknown, table=table, what=what)
        if report.failures:
            raise ConflictError(f"no part of the rewrite was committed: {report.failures[0]}")
        return ServiceRun(
            self, not_due=NotDue("; ".join(("no files are worth rewriting", *report.left)))
        )


def _percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole) if whole else 0} %"


REWRITE_DATA_FILES = RewriteDataFiles()
