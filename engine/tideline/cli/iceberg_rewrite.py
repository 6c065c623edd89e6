"""`tideline iceberg rewrite`: rewriting an Iceberg table's data files."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.iceberg_plan import (
    print_left,
    rewrite_asked,
    rewrite_options,
    show_plan,
)
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.cli.saved import print_saved, saved_json
from tideline.errors import ConflictError, CorruptTableError, UnknownOutcomeError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_data_files.in_process import engine_for, write_groups_here
from tideline.iceberg.services.rewrite_data_files.run import RewriteReport, rewrite_data_files
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_json
from tideline.iceberg_lake_table import engine_on
from tideline.resource_usage import ResourceUsage
from tideline.wording import counted, size_text


@command("rewrite")
@iceberg_table_options
@rewrite_options
@dry_run_option("Show what would be rewritten, as `plan` does; change nothing.")
@click.option("--local", is_flag=True, help="Work in this process, also when it is large.")
def rewrite_command(
    source: TableSource, as_json: bool, dry_run: bool, local: bool, **asked: Any
) -> None:
    """Rewrite the data files of TABLE that are too small, too large or full of deletes.

    Readers and writers continue during the rewrite. A delete that arrives for a file being
    rewritten makes the rewrite void (exit code 3), or with partial-progress.enabled=true only a
    part of it.
    """
    table = source.open()
    if dry_run:
        show_plan(table, as_json=as_json, **asked)
        return
    branch = asked.pop("branch")
    options, where = rewrite_asked(table.metadata, **asked)
    before = ResourceUsage.so_far()
    with progress("rewriting data files"):
        report = rewrite_data_files(
            table,
            options,
            write_groups_here if local else engine_for(options, partial(engine_on, None)),
            where=where,
            branch=branch,
        )
    spent = ResourceUsage.so_far().since(before)
    if as_json:
        print_json({"table": table.io.location.uri, **report_json(report, table.metadata, spent)})
    else:
        _print_report(report, spent)
    raise click.exceptions.Exit(_exit_code(report))


def report_json(
    report: RewriteReport, metadata: TableMetadata, spent: ResourceUsage
) -> dict[str, Any]:
    """What was done and what that took, for machines, with the plan it was done by."""
    return {
        **report.to_json_object(),
        **saved_json(report.benefit, spent),
        "failed_groups": [
            {"group": failed.index, "error": str(failed.error)} for failed in report.failed_groups
        ],
        "failed_commits": [
            {"groups": list(failed.groups), "reason": failed.reason, "unknown": failed.is_unknown}
            for failed in report.failed_commits
        ],
        "plan": plan_json(report.plan, metadata),
    }


def _print_report(report: RewriteReport, spent: ResourceUsage) -> None:
    by_name = [skipped for skipped in report.plan.skipped if skipped.reason.is_by_name]
    if not report.plan.groups:
        print_line("Nothing to rewrite.")
        print_left(by_name)
        return
    print_line(
        f"Rewrote {counted(report.files_rewritten, 'file')}, {size_text(report.bytes_rewritten)}, "
        f"into {counted(report.files_added, 'file')}, {size_text(report.bytes_added)}, in "
        f"{counted(len(report.snapshot_ids), 'commit')}."
    )
    print_saved(report.benefit, spent)
    if report.deletes_removed:
        removed = counted(report.deletes_removed, "delete file")
        print_line(f"Removed {removed} without any row to delete.")
    if report.deletes_left:
        print_line(f"Left delete files without any row to delete: {report.deletes_left}")
    print_left(by_name)
    for group in report.failed_groups:
        print_line(f"Group {group.index} failed: {group.error}")
    for failed in report.failed_commits:
        outcome = "may be committed" if failed.is_unknown else "are not committed"
        print_line(f"Groups {', '.join(map(str, failed.groups))} {outcome}: {failed.reason}")


def _exit_code(report: RewriteReport) -> int:
    """Of a rewrite in parts, where some may have failed."""
    if any(failed.is_unknown for failed in report.failed_commits):
        return UnknownOutcomeError.exit_code
    if report.failed_commits:
        return ConflictError.exit_code
    return CorruptTableError.exit_code if report.failed_groups else 0
