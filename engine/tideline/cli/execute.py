"""`tideline plan` and `tideline execute`: table services as a dry run, and for real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from tideline.cli.any_table import any_place_options
from tideline.cli.command import command
from tideline.cli.execute_operation import run_operation
from tideline.cli.iceberg_table import TableSource
from tideline.cli.ingests import describe_ingests
from tideline.cli.options import complete_settings, json_option, parse_pairs
from tideline.cli.output import print_json, print_line
from tideline.cli.service_consent import looks_first
from tideline.cli.serviced_table import (
    every_service,
    open_serviced,
    service_called,
    services_for,
)
from tideline.errors import ConfigError
from tideline.hudi.index.uniqueness import described
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.lake_table import LakeTable
from tideline.services.benefit import NO_BENEFIT
from tideline.services.explanation import Explanation, NotDue
from tideline.services.run import ServicePlan, ServiceRun, in_order
from tideline.services.service import Service
from tideline.settings.setting import SettingPlace
from tideline.wording import counted, size_text, spending_text

_OPTIONS = click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    shell_complete=complete_settings(SettingPlace.SERVICE),
    help="A setting over the table's own, such as hoodie.* of Hudi; may be repeated.",
)
_PATHS_SHOWN_MAX = 20


def complete_service(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers for SERVICE."""
    return [service.name for service in every_service() if service.name.startswith(incomplete)]


@command("plan")
@click.argument(
    "target", nargs=-1, metavar="[SERVICE] URI", required=True, shell_complete=complete_service
)
@_OPTIONS
@json_option
@any_place_options
def plan_command(
    target: tuple[str, ...], options: tuple[str, ...], place: TableSource, as_json: bool
) -> None:
    """Show what SERVICE, or every service, would do to the table at URI, why, and what that saves.

    What is due comes first, in the order in which to run it: as far as services do not build on
    each other, the one that saves most per core-second.
    """
    name, uri = _target(target)
    wanted = None if name is None else service_called(name)
    settings = parse_pairs(options, option="--option")
    table = open_serviced(replace(place, target=uri), wanted)
    if wanted == ROLLBACK and isinstance(table, LakeTable):
        _plan_rollback(table, as_json=as_json)
        return
    asked = services_for(table) if wanted is None else (wanted,)
    plans = in_order([table.plan(service.name, options=settings) for service in asked])
    about = _about(table.hoodie_table) if name is None and isinstance(table, LakeTable) else {}
    if as_json:
        print_json({"services": [plan.to_json_object() for plan in plans], **about})
        return
    for plan in plans:
        print_plan(plan)
    for ingest in about.get("ingests", ()):
        if ingest["set_aside"] is not None:
            print_line(f"ingest {ingest['name']}: {ingest['set_aside']} of {ingest['prefix']}.")
    if "keys" in about:
        print_line(f"keys: {about['keys']}.")
    for warning in {plan.warning for plan in plans if plan.warning is not None}:
        print_line(f"Note: {warning}.")


def _about(table: HoodieTable) -> dict[str, Any]:
    """What a plan of all services also says about the table: its ingests, where keys are unique."""
    keys = described(table)
    about: dict[str, Any] = {"ingests": describe_ingests(table, table.timeline())}
    return about if keys is None else {**about, "keys": keys}


@command("execute")
@click.argument("service", required=False, shell_complete=complete_service)
@click.argument("uri", required=False)
@click.option(
    "--operation",
    "operation_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="One planned operation, as JSON, instead of SERVICE and URI.",
)
@_OPTIONS
@json_option
@any_place_options
@looks_first(plan_command)
def execute_command(
    service: str | None,
    uri: str | None,
    operation_path: str | None,
    options: tuple[str, ...],
    place: TableSource,
    as_json: bool,
) -> None:
    """Run SERVICE on the table at URI if it is due, or the operation in FILE."""
    if operation_path is not None:
        if service is not None or place.is_of_catalog:
            raise ConfigError("--operation stands alone: the file names the table and the work")
        raise click.exceptions.Exit(run_operation(operation_path))
    if service is None or uri is None:
        raise ConfigError("name a SERVICE and a table URI, or --operation FILE")
    _require_order(service, uri)
    wanted = service_called(service)
    settings = parse_pairs(options, option="--option")
    source = replace(place, target=uri)
    run = open_serviced(source, wanted).run(wanted.name, options=settings)
    if as_json:
        print_json(run.to_json_object())
    else:
        print_run(run)


def print_plan(plan: ServicePlan) -> None:
    """A plan as people read it."""
    outcome = plan.outcome
    if isinstance(outcome, NotDue):
        print_line(f"{plan.service}: not due, {outcome.reason}.")
    else:
        print_line(f"{plan.service}: due, {outcome.reason}.")
        print_line(f"  {_cost(outcome)}")
        print_line(f"  saves {outcome.benefit.words}")
        print_line(f"  {_benefit(outcome)}")
        for name, value in outcome.details.items():
            if value:
                print_line(f"  {name}: {value}")
        for path in outcome.paths[:_PATHS_SHOWN_MAX]:
            print_line(f"  {path}")
        if len(outcome.paths) > _PATHS_SHOWN_MAX:
            print_line(f"  and {len(outcome.paths) - _PATHS_SHOWN_MAX} more; --json names them all")
    for pending in plan.pending:
        state = "being run" if pending.is_alive else "waiting to be run"
        print_line(f"  {pending.instant.time} is {state}")


def print_run(run: ServiceRun) -> None:
    """What a service did, file by file."""
    for done in run.done:
        print_audit(run.service, done.to_json_object())
    for time in run.left_alone:
        print_line(f"{run.service} {time} was left alone: another process is running it.")
    if run.done:
        spent = spending_text(run.spent.core_seconds, run.spent.requests)
        saved = f"saves {run.benefit.words}; " if run.benefit != NO_BENEFIT else ""
        print_line(f"{run.service}: {saved}took {spent}.")
    for note in run.notes:
        print_line(f"{run.service}: {note}.")
    if run.not_due is not None:
        print_line(f"{run.service}: not due, {run.not_due.reason}.")


def print_audit(service: Service, audit: Mapping[str, Any]) -> None:
    """One audit: its facts on a line, then its lists, an item a line."""
    lists = {name: value for name, value in audit.items() if isinstance(value, list)}
    facts = {name: value for name, value in audit.items() if name not in lists}
    instant = facts.pop("instant", "")
    for shown_elsewhere in ("service", "saved"):
        facts.pop(shown_elsewhere, None)
    facts |= facts.pop("metrics", None) or {}
    shown = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    print_line(f"{service} {instant}".rstrip() + (f": {shown}" if shown else ""))
    for name, items in lists.items():
        for item in items:
            print_line(f"  {_item(name, item)}")


def _item(name: str, item: Any) -> str:
    if not isinstance(item, Mapping):
        return f"{name}: {item}"
    values = dict(item)
    path = values.pop("path", "")
    what = values.pop("what", values.pop("done", name))
    rest = ", ".join(f"{value:,} {key}" if isinstance(value, int) else f"{key} {value}"
                     for key, value in values.items() if value is not None)  # fmt: skip
    return f"{what} {path}" + (f" ({rest})" if rest else "")


def _cost(plan: Explanation) -> str:
    parts = [
        f"{size_text(size_bytes)} {what}"
        for what, size_bytes in (
            ("to read", plan.bytes_read),
            ("to write", plan.bytes_written),
            ("to delete", plan.bytes_deleted),
        )
        if size_bytes
    ]
    parts.append(counted(len(plan.paths), "file"))
    if plan.estimated_s is not None:
        parts.append(f"about {plan.estimated_s:.1f} s, judging by past runs")
    return ", ".join(parts)


def _benefit(plan: Explanation) -> str:
    """What its core-seconds are expected to bring."""
    by = "by default" if plan.estimate.core_seconds is None else "judging by past runs"
    cores = f"{plan.core_seconds:.2f} core-seconds, {by}"
    if not plan.benefit.benefit_bytes:
        return cores
    rate = round(plan.benefit_per_core_second)
    return f"{cores}: worth {'-' * (rate < 0)}{size_text(abs(rate))} not read per core-second"


def _target(words: tuple[str, ...]) -> tuple[str | None, str]:
    if len(words) > 2:
        raise ConfigError("name at most a SERVICE and a table URI", value=" ".join(words))
    if len(words) == 1:
        return None, words[0]
    _require_order(*words)
    return words[0], words[1]


def _require_order(service: str, uri: str) -> None:
    """Raise ConfigError for a URI before the name of a service."""
    names = {known.name for known in every_service()}
    if uri in names and service not in names:
        raise ConfigError(f"the service comes first: {uri} {service}", value=service)


def _plan_rollback(table: LakeTable, *, as_json: bool) -> None:
    plans = table.failed_writes()
    waiting = _alive(table, {str(plan.instant) for plan in plans})
    if as_json:
        print_json({"service": "rollback", "would_roll_back": [_plan_json(p) for p in plans],
                    "left_alone": waiting})  # fmt: skip
        return
    for plan in plans:
        files = [path for paths in plan.paths.values() for path in paths]
        print_line(
            f"Would roll back {plan.instant} ({plan.action}), because its writer is gone: "
            f"{counted(len(files), 'file')} to delete."
        )
        for path in files:
            print_line(f"  {path}")
    for instant in waiting:
        print_line(f"Would leave {instant} alone: its writer is alive.")
    if not plans:
        print_line("Nothing to roll back.")


def _plan_json(plan: RollbackPlan) -> dict[str, Any]:
    return {"instant": str(plan.instant), "action": str(plan.action), "paths": plan.paths}


def _alive(table: LakeTable, planned: set[str]) -> list[str]:
    pending = table.timeline().pending()
    return [str(instant.time) for instant in pending if str(instant.time) not in planned]
