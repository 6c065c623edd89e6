"""`tideline upgrade` and `tideline downgrade`: bring a table to another version."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.errors import ConfigError
from tideline.hudi.upgrade.execute import VersionChanged
from tideline.wording import counted

_OF_ICEBERG = "`tideline iceberg alter upgrade` changes its version"

_VERSION_OPTION = click.option(
    "--to", "version", required=True, type=int, metavar="VERSION", help="6, 8 or 9."
)
_DRY_RUN = dry_run_option("Show the steps and the properties that would change; change nothing.")


@command("upgrade")
@table_options
@_VERSION_OPTION
@_DRY_RUN
@yes_option
def upgrade_command(
    uri: str, storage: dict[str, str], as_json: bool, version: int, dry_run: bool, yes: bool
) -> None:
    """Bring the table at URI to the later VERSION: 8 is that of Hudi 1.0, 9 of Hudi 1.1 and later.

    Readers and writers that know only earlier versions cannot open it any more. Tables of versions
    3 to 5 can be brought to 6. One that died is finished, or undone, by the same command.
    """
    _change(uri, storage, version, is_upgrade=True, as_json=as_json, dry_run=dry_run, yes=yes)


@command("downgrade")
@table_options
@_VERSION_OPTION
@_DRY_RUN
@yes_option
def downgrade_command(
    uri: str, storage: dict[str, str], as_json: bool, version: int, dry_run: bool, yes: bool
) -> None:
    """Bring the table at URI to the earlier VERSION, which older releases of Hudi read.

    A merge-on-read table that goes to version 6 loses its older states: time travel starts over.
    """
    _change(uri, storage, version, is_upgrade=False, as_json=as_json, dry_run=dry_run, yes=yes)


def _change(
    uri: str,
    storage: dict[str, str],
    version: int,
    *,
    is_upgrade: bool,
    as_json: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    planned = table.change_version(version, dry_run=True)
    _require_direction(table.hoodie_table.config.version, version, is_upgrade=is_upgrade)
    if dry_run:
        _print(planned, as_json=as_json)
        return
    if planned.plan is not None and is_asked(yes=yes):
        ask(f"{_steps(planned)}Continue?", yes=yes)
    with progress("changing the version of the table"):
        done = table.change_version(version)
    _print(done, as_json=as_json)


def _require_direction(found: int, version: int, *, is_upgrade: bool) -> None:
    if version != found and (version > found) is not is_upgrade:
        other = "downgrade" if is_upgrade else "upgrade"
        raise ConfigError(
            f"the table has version {found} now: this would be tideline {other}", value=version
        )


def _print(done: VersionChanged, *, as_json: bool) -> None:
    if as_json:
        print_json(done.to_json_object())
    elif done.plan is None:
        print_line(f"The table has version {done.version} already.")
    elif not done.is_done:
        print_line(_steps(done))
        for name, text in sorted(done.plan.changes.items()):
            print_line(f"  {name} = {text}" if text is not None else f"  {name} is removed")
    else:
        before = done.plan.before.table_version
        print_line(f"The table went from version {before} to version {done.version}.")
        if done.plan.moves_timeline:
            written = counted(done.objects_written, "object")
            archived = counted(done.archived_instants, "archived instant")
            print_line(f"Its timeline was rewritten: {written}, {archived}.")


def _steps(planned: VersionChanged) -> str:
    if planned.plan is None:
        return ""
    before = planned.plan.before.table_version
    lines = [f"From version {before} to version {planned.version}:"]
    lines += [f"  {number}. {step}" for number, step in enumerate(planned.plan.steps, start=1)]
    return "\n".join(lines) + "\n"
