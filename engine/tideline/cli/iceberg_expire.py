"""`tideline iceberg expire`: forget old snapshots, and delete the files only they led to."""

from __future__ import annotations

from typing import Any

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.moment import parse_moment
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.cli.saved import print_saved, saved_json
from tideline.clock import SystemClock
from tideline.iceberg.services.expire_snapshots.execute import (
    execute_expire,
    expiry_json,
    preview_expire,
)
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions, ExpirePlan
from tideline.iceberg.services.reachable_file import FileTally
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import committed_location
from tideline.resource_usage import ResourceUsage
from tideline.wording import counted, size_text


@command("expire")
@iceberg_table_options
@click.option("--older-than", metavar="AGE|TIME", help="Such as 7d; else the table's own setting.")
@click.option("--retain-last", type=int, metavar="N", help="Snapshots each branch keeps at least.")
@click.option(
    "--snapshot-id", "snapshot_ids", type=int, multiple=True, help="One more; may be repeated."
)
@click.option(
    "--clean-expired-metadata", is_flag=True, help="Also remove unused specs and schemas."
)
@click.option("--keep-files", is_flag=True, help="Change metadata only; files become orphans.")
@dry_run_option("Show what would be expired and deleted; change nothing.")
@yes_option
def expire_command(
    source: TableSource,
    as_json: bool,
    older_than: str | None,
    retain_last: int | None,
    snapshot_ids: tuple[int, ...],
    clean_expired_metadata: bool,
    keep_files: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Expire snapshots of TABLE that no branch or tag keeps, and delete their files."""
    now_ms = SystemClock().now_ms()
    older_than_ms = older_than and parse_moment(older_than, now_ms=now_ms, option="--older-than")
    options = ExpireOptions(
        older_than_ms or None, retain_last, snapshot_ids, clean_expired_metadata, not keep_files
    )
    table = source.open()
    if dry_run:
        with progress("looking for snapshots to expire"):
            preview = preview_expire(table.operations, options)
        tally = FileTally()
        tally.add(preview.files)
        files = [file.location for file in preview.files]
        _report(preview.plan, tally, preview.left, as_json, {"dry_run": True, "files": files})
        return
    if is_asked(yes=yes):
        _ask(table, options, source.target)
    before = ResourceUsage.so_far()
    with progress("expiring snapshots"):
        run = execute_expire(table.operations, options)
    location = committed_location(run.outcome, table=source.target)
    spent = ResourceUsage.so_far().since(before)
    facts = {"metadata": location, **saved_json(run.benefit, spent)}
    _report(run.plan, run.deleted, run.left, as_json, facts)
    if not as_json and not run.plan.is_empty:
        print_saved(run.benefit, spent)
    if run.failure is not None:
        raise run.failure


def _ask(table: IcebergTable, options: ExpireOptions, target: str) -> None:
    with progress("looking for snapshots to expire"):
        preview = preview_expire(table.operations, options)
    if preview.plan.is_empty:
        return
    snapshots = counted(len(preview.plan.snapshot_ids), "snapshot")
    files = counted(len(preview.files), "file")
    ask(f"Expire {snapshots} of {target} and delete {files}?", yes=False)


def _report(
    plan: ExpirePlan,
    tally: FileTally,
    left: tuple[str, ...],
    as_json: bool,
    facts: dict[str, Any],
) -> None:
    if as_json:
        print_json({**facts, **expiry_json(plan, tally, left)})
        return
    if plan.is_empty:
        kept = counted(len(plan.kept_ids), "snapshot")
        print_line(f"Nothing to expire; {kept} {'stays' if len(plan.kept_ids) == 1 else 'stay'}.")
        return
    is_dry = "dry_run" in facts
    expired, deleted = ("Would expire", "Would delete") if is_dry else ("Expired", "Deleted")
    snapshots = counted(len(plan.snapshot_ids), "snapshot")
    print_line(f"{expired} {snapshots}; {len(plan.kept_ids)} stay.")
    for name in plan.refs:
        print_line(f"  branch or tag {name}")
    for spec_id in plan.spec_ids:
        print_line(f"  partition spec {spec_id}")
    for schema_id in plan.schema_ids:
        print_line(f"  schema {schema_id}")
    files = counted(tally.counts.total(), "file")
    print_line(f"{deleted} {files}, {size_text(tally.size_bytes)}.")
    for kind, count in tally.counts.items():
        print_line(f"  {count} {kind.value.replace('_', ' ')}")
    for reason in left:
        print_line(f"Left: {reason}")
