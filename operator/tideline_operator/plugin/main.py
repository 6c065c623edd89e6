"""`kubectl tideline status|plan|why|run|logs|suspend|fence|resume`.

kubectl finds the program `kubectl-tideline` on the PATH. It uses kubectl's own configuration, and
the user's rights: to read LakeTables, pods and their logs, and to patch LakeTables for what
changes their spec.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tideline.cli.output import print_json, print_line, print_table
from tideline.errors import ConfigError, TidelineError
from tideline.masked_stream import mask_standard_error
from tideline_operator.api_objects import LAKE_TABLES, NAMESPACES, ApiRefusedError, Manifest
from tideline_operator.kube import KubeApi, context_namespace
from tideline_operator.plugin.driver_logs import driver_log
from tideline_operator.report.table_story import (
    PLAN_COLUMNS,
    STATUS_COLUMNS,
    newest_operation,
    plan_rows,
    reasons,
    rerun_end,
    rerun_number,
    running,
    status_row,
)
from tideline_operator.resources.status import OperationPhase

_LOOK_EVERY_S = 1.0
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _connection_options(function: _Function) -> _Function:
    """The options of kubectl that each command takes."""
    for option in (
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="As kubectl's: how to reach the cluster.",
        ),
        click.option("--context", metavar="NAME", help="As kubectl's: a context of that file."),
        click.option("--namespace", "-n", metavar="NAME", help="As kubectl's: a namespace."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON value."),
    ):
        function = option(function)
    return function


@click.group("kubectl tideline", context_settings={"help_option_names": ["-h", "--help"]})
def plugin() -> None:
    """LakeTables of a cluster: how they are, what is due, and why."""


@plugin.command("status", short_help="List LakeTables: ready, newest instant, what is due.")
@click.argument("name", required=False)
@click.option("--all-namespaces", "-A", is_flag=True, help="Tables of every namespace.")
@_connection_options
def status_command(name: str | None, all_namespaces: bool, as_json: bool, **given: Any) -> None:
    """List LakeTables: ready, newest instant, waiting files, due services, running work."""
    api, namespace = _connect(given)
    if name is not None:
        tables = [_table(api, name, namespace)]
    else:
        tables, _ = api.list(LAKE_TABLES, None if all_namespaces else namespace)
    rows = [status_row(table) for table in tables]
    if as_json:
        print_json([dict(zip(STATUS_COLUMNS, row, strict=True)) for row in rows])
    elif not rows:
        print_line("no LakeTables" if all_namespaces else f"no LakeTables in {namespace}")
    else:
        print_table(STATUS_COLUMNS, rows)


@plugin.command("plan", short_help="Show what is due, why, and when the rest will be.")
@click.argument("name")
@_connection_options
def plan_command(name: str, as_json: bool, **given: Any) -> None:
    """Show which ingests and services are due, and why, and when the others will be."""
    api, namespace = _connect(given)
    table = _table(api, name, namespace)
    rows = plan_rows(table)
    if as_json:
        print_json([dict(zip(PLAN_COLUMNS, row, strict=True)) for row in rows])
        return
    print_table(PLAN_COLUMNS, rows)
    for item in running(table):
        print_line(
            f"under way since {item['startedAt']}: {item['kind']} {item.get('subject') or ''}"
        )


@plugin.command("why")
@click.argument("name")
@_connection_options
def why_command(name: str, as_json: bool, **given: Any) -> int:
    """Say why a table is not ready or not current. The exit code is 1 when something is wrong."""
    api, namespace = _connect(given)
    found = reasons(_table(api, name, namespace), namespace=_namespace(api, namespace))
    if as_json:
        names = ("subject", "reason", "message")
        print_json([{key: getattr(candidate, key) for key in names} for candidate in found])
    else:
        for reason in found:
            print_line(
                f"{reason.subject}: {reason.reason}"
                + (f": {reason.message}" if reason.message else "")
            )
        if not found:
            print_line(f"nothing is wrong with {namespace}/{name}")
    return 1 if found else 0


@plugin.command("run", short_help="Run a service or an ingest of a table once, now.")
@click.argument("name")
@click.argument("what")
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended.")
@click.option("--timeout", "timeout_s", metavar="SECONDS", default=600, show_default=True)
@_connection_options
def run_command(
    name: str, what: str, waits: bool, timeout_s: int, as_json: bool, **given: Any
) -> int:
    """Run a service or an ingest of a table once, now: WHAT is its name. Sets spec.rerun."""
    api, namespace = _connect(given)
    table = _table(api, name, namespace)
    try:
        number = rerun_number(table, what)
    except KeyError as error:
        message = f"{namespace}/{name} has no such service or ingest; it has {error.args[0]}"
        raise ConfigError(message, value=what) from None
    api.patch(LAKE_TABLES, name, {"spec": {"rerun": {what: number}}}, namespace)
    ended = _ended(api, name, namespace, (what, number), timeout_s) if waits else None
    if as_json:
        print_json({"rerun": {what: number}, "operation": ended})
    else:
        print_line(f"asked for run {number} of {what}")
        if ended is not None:
            print_line(f"{ended['phase']}: {ended.get('message') or 'done'}")
    if not waits:
        return 0
    return 0 if ended is not None and ended["phase"] == OperationPhase.SUCCEEDED.value else 1


@plugin.command("suspend")
@click.argument("name")
@_connection_options
def suspend_command(name: str, as_json: bool, **given: Any) -> None:
    """Pause a table: nothing is checked or run until `resume`. Sets spec.suspend."""
    _change(name, {"suspend": True}, "suspended", as_json, given)


@plugin.command("fence", short_help="Let nothing be ingested into a table until resume.")
@click.argument("name")
@_connection_options
def fence_command(name: str, as_json: bool, **given: Any) -> None:
    """Let nothing be ingested into a table until `resume`; services continue. Sets spec.fenced."""
    _change(name, {"fenced": True}, "fenced", as_json, given)


@plugin.command("resume")
@click.argument("name")
@_connection_options
def resume_command(name: str, as_json: bool, **given: Any) -> None:
    """Let a suspended or fenced table continue. Unsets spec.suspend and spec.fenced."""
    _change(name, {"suspend": None, "fenced": None}, "resumed", as_json, given)


@plugin.command("logs", short_help="Print the log of the driver that works on a table.")
@click.argument("name")
@click.option("--operation", metavar="ID", help="An operation in the table's status.")
@click.option("--follow", "-f", "follows", is_flag=True, help="Show lines as they are written.")
@_connection_options
def logs_command(
    name: str, operation: str | None, follows: bool, as_json: bool, **given: Any
) -> None:
    """Print the log of the driver that works on a table, or worked on it last."""
    api, namespace = _connect(given)
    entry = newest_operation(_table(api, name, namespace), operation)
    if entry is None:
        raise ConfigError(f"{namespace}/{name} has no such operation", value=operation or "any")
    lines = driver_log(api, entry, namespace, follows=follows)
    if as_json:
        print_json({"operation": entry["id"], "lines": list(lines)})
        return
    for line in lines:
        print_line(line)


def _change(
    name: str, change: dict[str, Any], done: str, as_json: bool, given: dict[str, Any]
) -> None:
    api, namespace = _connect(given)
    _table(api, name, namespace)
    api.patch(LAKE_TABLES, name, {"spec": change}, namespace)
    if as_json:
        print_json({"namespace": namespace, "name": name, "spec": change})
    else:
        print_line(f"{done} {namespace}/{name}")


def _connect(given: dict[str, Any]) -> tuple[KubeApi, str]:
    kubeconfig, context = given["kubeconfig"], given["context"]
    namespace = given["namespace"] or context_namespace(kubeconfig, context)
    return KubeApi.from_environment(kubeconfig, context), namespace


def _table(api: KubeApi, name: str, namespace: str) -> Manifest:
    found = api.get(LAKE_TABLES, name, namespace)
    if found is None:
        raise ConfigError(f"there is no LakeTable of that name in {namespace}", value=name)
    return found


def _namespace(api: KubeApi, namespace: str) -> Manifest | None:
    try:
        return api.get(NAMESPACES, namespace)
    except ApiRefusedError:
        # Users of a namespace often may not read the namespace itself.
        return None


def _ended(
    api: KubeApi, name: str, namespace: str, asked: tuple[str, int], timeout_s: int
) -> Manifest | None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended = rerun_end(_table(api, name, namespace), *asked)
        if ended is not None:
            return ended
        time.sleep(_LOOK_EVERY_S)
    return None


def main() -> None:
    """Run the command and end the process with its exit code."""
    mask_standard_error()
    try:
        sys.exit(plugin.main(prog_name="kubectl tideline", standalone_mode=False) or 0)
    except TidelineError as error:
        print(f"kubectl tideline: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)


if __name__ == "__main__":
    main()
