"""`tideline plan` and `tideline execute`: a service as a dry run, and for real."""

from __future__ import annotations

from typing import Any

import click

from tideline.cli.operation import run_operation
from tideline.cli.options import json_option, storage_options
from tideline.cli.output import print_json, print_line
from tideline.errors import ConfigError
from tideline.lake_table import LakeTable
from tideline.services.rollback.plan import RollbackPlan

_SERVICES = click.Choice(["rollback"])


@click.command("plan")
@click.argument("service", type=_SERVICES)
@click.argument("uri")
@json_option
@storage_options
def plan_command(service: str, uri: str, storage: dict[str, str], as_json: bool) -> None:
    """Say what SERVICE would do to the table at URI, and why; change nothing."""
    table = LakeTable.open(uri, storage_options=storage)
    plans = table.plan(service)
    waiting = _alive(table, {str(plan.instant) for plan in plans})
    if as_json:
        print_json({"service": service, "would_roll_back": [_plan_json(p) for p in plans],
                    "left_alone": waiting})  # fmt: skip
        return
    for plan in plans:
        files = [path for paths in plan.paths.values() for path in paths]
        print_line(
            f"Would roll back {plan.instant} ({plan.action}), because its writer is gone: "
            f"{len(files)} files to delete."
        )
        for path in files:
            print_line(f"  {path}")
    for instant in waiting:
        print_line(f"Would leave {instant} alone: its writer is alive.")
    if not plans:
        print_line("Nothing to roll back.")


@click.command("execute")
@click.argument("service", type=_SERVICES, required=False)
@click.argument("uri", required=False)
@click.option(
    "--operation",
    "operation_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="One planned operation, as JSON, instead of SERVICE and URI.",
)
@json_option
@storage_options
def execute_command(
    service: str | None,
    uri: str | None,
    operation_path: str | None,
    storage: dict[str, str],
    as_json: bool,
) -> None:
    """Run SERVICE on the table at URI, or the operation in FILE."""
    if operation_path is not None:
        if service is not None:
            raise ConfigError("--operation stands alone: the file names the table and the work")
        raise click.exceptions.Exit(run_operation(operation_path))
    if service is None or uri is None:
        raise ConfigError("Name a SERVICE and a table URI, or --operation FILE")
    done = LakeTable.open(uri, storage_options=storage).run(service)
    if as_json:
        undone = [{"instant": str(one.instant), "action": str(one.action),
                   "deleted": one.deleted} for one in done]  # fmt: skip
        print_json({"service": service, "rolled_back": undone})
        return
    for one in done:
        print_line(f"Rolled back {one.instant} ({one.action}): {len(one.deleted)} files deleted.")
    if not done:
        print_line("Nothing to roll back.")


def _plan_json(plan: RollbackPlan) -> dict[str, Any]:
    return {"instant": str(plan.instant), "action": str(plan.action), "paths": plan.paths}


def _alive(table: LakeTable, planned: set[str]) -> list[str]:
    pending = table.timeline().pending()
    return [str(one.time) for one in pending if str(one.time) not in planned]
