"""`tideline iceberg remove-orphans`: find and delete files that no metadata leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, yes_option
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.moment import parse_moment
from tideline.cli.options import parse_pairs
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.clock import SystemClock
from tideline.iceberg.services.remove_orphan_files.execute import (
    OrphanRun,
    execute_orphans,
    plan_orphans,
)
from tideline.iceberg.services.remove_orphan_files.plan import (
    OrphanFile,
    OrphanOptions,
    PrefixMismatch,
)
from tideline.wording import counted, size_text

_PATHS_SHOWN_MAX = 50


@command("remove-orphans")
@iceberg_table_options
@click.option("--older-than", metavar="AGE|TIME", help="Such as 7d; three days by default.")
@click.option(
    "--location",
    "locations",
    multiple=True,
    help="Search this folder, not the table's own; may be repeated.",
)
@click.option(
    "--equal-scheme", "schemes", multiple=True, metavar="A,B=C", help="Schemes that mean the same."
)
@click.option(
    "--equal-authority", "authorities", multiple=True, metavar="A,B=C", help="Likewise buckets."
)
@click.option(
    "--prefix-mismatch-mode",
    default="ERROR",
    show_default=True,
    help="ERROR, IGNORE or DELETE for files named with another scheme or bucket.",
)
@click.option(
    "--dropped-table",
    "dropped_tables",
    multiple=True,
    metavar="UUID",
    help="A table that lay in the same folder and was dropped: its files go; may be repeated.",
)
@click.option("--force", is_flag=True, help="Allow less than 24 hours: nothing else may write.")
@dry_run_option("Show what would be deleted; change nothing.")
@yes_option
def remove_orphans_command(
    source: TableSource,
    as_json: bool,
    older_than: str | None,
    locations: tuple[str, ...],
    schemes: tuple[str, ...],
    authorities: tuple[str, ...],
    prefix_mismatch_mode: str,
    dropped_tables: tuple[str, ...],
    force: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete files in TABLE's folders that it does not know. Look at --dry-run first."""
    now_ms = SystemClock().now_ms()
    cutoff = older_than and parse_moment(older_than, now_ms=now_ms, option="--older-than")
    options = OrphanOptions(
        cutoff or None,
        locations,
        parse_pairs(schemes, option="--equal-scheme"),
        parse_pairs(authorities, option="--equal-authority"),
        PrefixMismatch.parse(prefix_mismatch_mode),
        force,
        dropped_tables,
    )
    operations = source.open().operations
    with progress("looking for orphan files"):
        plan = plan_orphans(operations, options)
    run = OrphanRun(plan, is_dry=True)
    if not dry_run:
        if plan.orphans:
            ask(f"Delete {_total(plan.orphans)}, of {source.target}?", yes=yes)
        with progress("deleting orphan files"):
            run = execute_orphans(operations, plan)
    if as_json:
        _print_json(run)
    else:
        _print(run)


def _print_json(run: OrphanRun) -> None:
    plan = run.plan
    files = [
        {"path": file.location, "bytes": file.size_bytes, "modified_ms": file.modified_ms}
        for file in run.files
    ]
    print_json(
        {
            "dry_run": run.is_dry,
            "older_than_ms": plan.cutoff_ms,
            "locations": plan.locations,
            "orphan_files": files,
            "bytes": run.size_bytes,
            "left_alone": plan.left_alone,
            "shared_folders": [asdict(shared_folder) for shared_folder in plan.shared],
            "saved": [orphan_file.location for orphan_file in run.saved],
        }
    )


def _print(run: OrphanRun) -> None:
    plan, shown = run.plan, run.files
    verb = "Would delete" if run.is_dry else "Deleted"
    print_line(f"{verb} {_total(shown)}.")
    for orphan_file in shown[:_PATHS_SHOWN_MAX]:
        print_line(f"  {orphan_file.location} ({size_text(orphan_file.size_bytes)})")
    if len(shown) > _PATHS_SHOWN_MAX:
        print_line(f"  and {len(shown) - _PATHS_SHOWN_MAX} more; --json names them all")
    for location in plan.locations:
        print_line(f"Looked at {location}")
    for shared in plan.shared:
        print_line(f"Looked at {shared.location}")
    for shared in plan.shared:
        if shared.files:
            print_line(f"{shared.words[:1].upper()}{shared.words[1:]}.")
    for reason, count in plan.left_alone.items():
        print_line(f"Left alone: {count} {reason}")
    for file in run.saved:
        print_line(f"Left alone: a commit has taken in {file.location}")


def _total(files: Sequence[OrphanFile]) -> str:
    return f"{counted(len(files), 'file')}, {size_text(sum(file.size_bytes for file in files))}"
