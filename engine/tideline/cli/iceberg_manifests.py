"""`tideline iceberg rewrite-manifests`: put partitions together in few manifests."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tideline.cli.command import command
from tideline.cli.consent import dry_run_option
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.options import split_names
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.cli.saved import print_saved, saved_json
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests, preview_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestGroup, ManifestOptions
from tideline.iceberg.table.table_operations import committed_location
from tideline.resource_usage import ResourceUsage
from tideline.wording import counted, size_text


@command("rewrite-manifests")
@iceberg_table_options
@click.option("--spec-id", type=int, help="The partition spec; else the current one.")
@click.option("--sort-by", metavar="FIELDS", help="Partition fields, most important first.")
@click.option("--rewrite-all", is_flag=True, help="Also manifests that are well clustered.")
@dry_run_option("Show what would be rewritten; change nothing.")
def rewrite_manifests_command(
    source: TableSource,
    as_json: bool,
    spec_id: int | None,
    sort_by: str | None,
    rewrite_all: bool,
    dry_run: bool,
) -> None:
    """Rewrite manifests of TABLE by partition, so that filters read few; no file changes."""
    options = ManifestOptions(spec_id, split_names(sort_by), rewrite_all)
    before = ResourceUsage.so_far()
    operations = source.open().operations
    if dry_run:
        groups: Sequence[ManifestGroup] = preview_manifests(operations, options)
        created = sum(group.outputs for group in groups)
        location, benefit = None, None
    else:
        with progress("rewriting manifests"):
            run = execute_manifests(operations, options)
        location = committed_location(run.outcome, table=source.target)
        groups, created, benefit = run.groups, len(run.created), run.benefit
    spent = ResourceUsage.so_far().since(before)
    replaced = sum(len(group.manifests) for group in groups)
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "rewritten_manifests": replaced,
                "added_manifests": created,
                "groups": [group.to_json_object() for group in groups],
                "metadata": location,
                **(saved_json(benefit, spent) if benefit is not None else {}),
            }
        )
    elif not groups:
        print_line("Nothing to rewrite: the manifests are well clustered.")
    else:
        verb = "Would rewrite" if dry_run else "Rewrote"
        size_bytes = sum(group.size_bytes for group in groups)
        rewritten = counted(replaced, "manifest")
        print_line(f"{verb} {rewritten}, {size_text(size_bytes)}, into {created:,}.")
        if benefit is not None:
            print_saved(benefit, spent)
