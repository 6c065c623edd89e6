"""`tideline iceberg expire`: forget old snapshots, and delete the files only they led to."""

from __future__ import annotations

from typing import Any

import click

from tideline.cli.iceberg_outcome import committed_location
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.moment import parse_moment
from tideline.cli.output import print_json, print_line
from tideline.clock import SystemClock
from tideline.iceberg.maintenance.expire_plan import ExpireOptions, ExpirePlan
from tideline.iceberg.maintenance.expire_snapshots import execute_expire, preview_expire
from tideline.iceberg.maintenance.reachable_file import FileTally
from tideline.wording import size_text


@click.command("expire")
@iceberg_table_options
@click.option("--older-than", metavar="AGE|TIME", help="Such as 7d; else the table's own setting.")
@click.option("--retain-last", type=int, metavar="N", help="Snapshots each branch keeps at least.")
@click.option(
    "--snapshot-id", "snapshot_ids", type=int, multiple=True, help="One more; may be repeated."
)
@click.option(
    "--clean-expired-metadata", is_flag=True, help="Also forget specs and schemas nothing uses."
)
@click.option("--keep-files", is_flag=True, help="Change metadata only; files become orphans.")
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
def expire_command(
    source: TableSource,
    as_json: bool,
    older_than: str | None,
    retain_last: int | None,
    snapshot_ids: tuple[int, ...],
    clean_expired_metadata: bool,
    keep_files: bool,
    dry_run: bool,
) -> None:
    """Expire snapshots of TABLE that no branch or tag keeps, and delete their files."""
    now_ms = SystemClock().now_ms()
    older_than_ms = older_than and parse_moment(older_than, now_ms=now_ms, option="--older-than")
    options = ExpireOptions(
        older_than_ms or None, retain_last, snapshot_ids, clean_expired_metadata, not keep_files
    )
    table = source.open()
    if dry_run:
        preview = preview_expire(table.operations, options)
        tally = FileTally()
        tally.add(preview.files)
        files = [one.location for one in preview.files]
        _report(preview.plan, tally, preview.left, as_json, {"dry_run": True, "files": files})
        return
    run = execute_expire(table.operations, options)
    location = committed_location(run.outcome, table=source.target)
    _report(run.plan, run.deleted, run.left, as_json, {"metadata": location})


def _report(
    plan: ExpirePlan,
    tally: FileTally,
    left: tuple[str, ...],
    as_json: bool,
    facts: dict[str, Any],
) -> None:
    if as_json:
        counts = {f"deleted_{name}": count for name, count in tally.json().items()}
        print_json(
            {
                **facts,
                "expired_snapshots": plan.snapshot_ids,
                "kept_snapshots": len(plan.kept_ids),
                "removed_refs": plan.refs,
                "removed_specs": plan.spec_ids,
                "removed_schemas": plan.schema_ids,
                **counts,
                "left": left,
            }
        )
        return
    if plan.is_empty:
        print_line(f"Nothing to expire; {len(plan.kept_ids)} snapshots stay.")
        return
    is_dry = "dry_run" in facts
    expired, deleted = ("Would expire", "Would delete") if is_dry else ("Expired", "Deleted")
    print_line(f"{expired} {len(plan.snapshot_ids)} snapshots; {len(plan.kept_ids)} stay.")
    for name in plan.refs:
        print_line(f"  branch or tag {name}")
    for spec_id in plan.spec_ids:
        print_line(f"  partition spec {spec_id}")
    for schema_id in plan.schema_ids:
        print_line(f"  schema {schema_id}")
    print_line(f"{deleted} {tally.counts.total()} files, {size_text(tally.size_bytes)}.")
    for kind, count in tally.counts.items():
        print_line(f"  {count} {kind.value.replace('_', ' ')}")
    for reason in left:
        print_line(f"Left: {reason}")
