"""`tideline iceberg`: the commands for Apache Iceberg tables.

Each lives in a module of its own, `iceberg_<command>.py`, and takes the table by the arguments of
`iceberg_table.py`.
"""

from __future__ import annotations

import click

from tideline.cli.lazy_group import LazyGroup

_COMMANDS = {
    "show": ("tideline.cli.iceberg_show:show_command", "Describe a table: schema, counts."),
    "plan": (
        "tideline.cli.iceberg_plan:plan_command",
        "Show what a rewrite of data files would do.",
    ),
    "rewrite": (
        "tideline.cli.iceberg_rewrite:rewrite_command",
        "Rewrite data files to good sizes, without deleted rows.",
    ),
    "expire": (
        "tideline.cli.iceberg_expire:expire_command",
        "Expire old snapshots and delete their files.",
    ),
    "erase": (
        "tideline.cli.iceberg_erase:erase_command",
        "Erase rows from every file of the table.",
    ),
    "remove-orphans": (
        "tideline.cli.iceberg_orphans:remove_orphans_command",
        "Delete files that the table does not reference.",
    ),
    "rewrite-manifests": (
        "tideline.cli.iceberg_manifests:rewrite_manifests_command",
        "Regroup manifests by partition.",
    ),
    "rewrite-deletes": (
        "tideline.cli.iceberg_deletes:rewrite_deletes_command",
        "Merge position delete files into fewer.",
    ),
    "alter": (
        "tideline.cli.iceberg_alter:alter_command",
        "Change columns, partitions, order, properties, version.",
    ),
    "branch": (
        "tideline.cli.iceberg_refs:branch_command",
        "Create, move and drop branches.",
    ),
    "tag": ("tideline.cli.iceberg_refs:tag_command", "Create, move and drop tags."),
    "rollback": (
        "tideline.cli.iceberg_refs:rollback_command",
        "Take the main branch back to what it was.",
    ),
    "publish": (
        "tideline.cli.iceberg_refs:publish_command",
        "Take the main branch to a staged snapshot.",
    ),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def iceberg_command() -> None:
    """Inspect, change and maintain Apache Iceberg tables.

    TABLE is the folder or s3:// prefix of a table that no catalog keeps; with --catalog it is
    `namespace.name`. Credentials come from the environment only, never from arguments.
    """
