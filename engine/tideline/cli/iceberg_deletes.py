"""`tideline iceberg rewrite-deletes`: fewer position delete files, none that deletes nothing."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.options import parse_pairs
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.cli.saved import print_saved, saved_json
from tideline.iceberg.services.rewrite_position_deletes.execute import (
    execute_position_deletes,
)
from tideline.iceberg.services.rewrite_position_deletes.plan import (
    DeletePlan,
    delete_rewrite_options,
)
from tideline.iceberg.services.rewrite_position_deletes.search import prepare_position_deletes
from tideline.resource_usage import ResourceUsage
from tideline.wording import counted, size_text

_PATHS_SHOWN_MAX = 10


@command("rewrite-deletes")
@iceberg_table_options
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of Iceberg's rewrite_position_delete_files; may be repeated.",
)
@dry_run_option("Show what would be rewritten; change nothing.")
def rewrite_deletes_command(
    source: TableSource, as_json: bool, options: tuple[str, ...], dry_run: bool
) -> None:
    """Rewrite small position delete files of TABLE (version 2) into few; rows stay the same."""
    table = source.open()
    given = parse_pairs(options, option="--option")
    parsed = delete_rewrite_options(given, table.metadata.properties)
    if dry_run:
        plan = prepare_position_deletes(table.operations, parsed).plan
        _print_plan(plan, as_json=as_json)
        return
    before = ResourceUsage.so_far()
    with progress("rewriting delete files"):
        run = execute_position_deletes(table.operations, parsed)
    run.refuse_failure(source.target)
    spent = ResourceUsage.so_far().since(before)
    if as_json:
        print_json({"dry_run": False, **run.to_json_object(), **saved_json(run.benefit, spent)})
    elif run.plan.is_empty:
        print_line("Nothing to rewrite.")
        _print_left(run.plan)
    else:
        print_line(
            f"Rewrote {counted(run.files_removed, 'delete file')} into {run.files_added:,}, "
            f"{counted(run.positions_removed, 'position')} into {run.positions_added:,}."
        )
        print_saved(run.benefit, spent)
        _print_left(run.plan)
        for reason in run.failures:
            print_line(f"Failed: {reason}")


def _print_plan(plan: DeletePlan, *, as_json: bool) -> None:
    files = sum(len(group.entries) for group in plan.groups)
    size_bytes = sum(group.input_bytes for group in plan.groups)
    if as_json:
        groups = [
            {"spec_id": group.spec_id, "files": len(group.entries), "bytes": group.input_bytes}
            for group in plan.groups
        ]
        print_json(
            {
                "dry_run": True,
                "groups": groups,
                "delete_files": files,
                "bytes": size_bytes,
                "dangling_delete_files": len(plan.dangling),
                "skipped": plan.skipped,
                "named": plan.named,
            }
        )
        return
    print_line(
        f"Would rewrite {counted(files, 'delete file')}, {size_text(size_bytes)}, in "
        f"{counted(len(plan.groups), 'group')}, and remove {len(plan.dangling)} that delete "
        "nothing."
    )
    _print_left(plan)


def _print_left(plan: DeletePlan) -> None:
    for reason, count in plan.skipped.items():
        print_line(f"Left alone: {count} {reason}")
        for path in plan.named.get(reason, ())[:_PATHS_SHOWN_MAX]:
            print_line(f"  {path}")
