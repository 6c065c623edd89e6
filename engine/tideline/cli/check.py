"""`tideline check`: is the table sound, and what remedy it if not?"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

import click

from tideline.check_finding import Finding, Repair, Severity
from tideline.cli.any_table import any_table_options, open_any, refuse_options
from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.iceberg_table import TableSource
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import end_progress, progress
from tideline.errors import ConfigError
from tideline.hudi.check.repair import plan_repairs
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.lake_table import LakeTable
from tideline.wording import counted

_COMMAND = "tideline "
_REPAIR = "tideline check --repair --apply"


@command("check")
@any_table_options
@click.option(
    "--keys", is_flag=True, help="Also look for keys stored twice; reads the key columns."
)
@click.option(
    "--across-partitions",
    is_flag=True,
    help="With --keys: a key in two partitions is a finding in any table, not only in one whose "
    "keys are unique as a whole.",
)
@click.option("--repair", is_flag=True, help="Show what would be repaired; --apply repairs it.")
@click.option("--apply", "applies", is_flag=True, help="With --repair: do it.")
@dry_run_option("With --repair: show what would be repaired, as without --apply.")
@yes_option
def check_command(
    source: TableSource,
    as_json: bool,
    keys: bool,
    across_partitions: bool,
    repair: bool,
    applies: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Check the table at URI. Changes nothing on its own.

    Of a Hudi table: timeline, files, archive, leftovers; of an Iceberg table: metadata, manifests,
    files, footers. Exit code 1 when there are errors. --repair, of a Hudi table, is a dry run; what
    it would do loses nothing that was committed.
    """
    if applies and not repair:
        raise ConfigError("--apply goes with --repair")
    if dry_run and not repair:
        raise ConfigError("--dry-run goes with --repair: a check changes nothing")
    if across_partitions and not keys:
        raise ConfigError("--across-partitions goes with --keys")
    opened = open_any(source)
    if not isinstance(opened, HoodieTable):
        refuse_options("Iceberg", verb="checked", keys=keys, repair=repair)
        # Takes a tenth of a second to import, which Hudi tables need not wait for.
        from tideline.iceberg.check.run import check_iceberg

        with progress("checking the table"):
            findings = check_iceberg(opened.operations)
        _report(opened.io.location.uri, findings, (), applies=False, as_json=as_json)
        return
    table = LakeTable(opened)
    applies = applies and not dry_run
    repairs: Sequence[Repair] = ()
    if applies:
        _ask_about_repairs(table, keys=keys, yes=yes)
        with progress("repairing the table"):
            repairs = table.repair(keys=keys)
    with progress("checking the table"):
        findings = table.check(keys=keys, across_partitions=across_partitions)
    if repair and not applies:
        repairs = plan_repairs(findings)
    _report(source.target, findings, repairs, applies=applies, as_json=as_json)


def _ask_about_repairs(table: LakeTable, *, keys: bool, yes: bool) -> None:
    if not is_asked(yes=yes):
        return
    with progress("checking the table"):
        repairs = plan_repairs(table.check(keys=keys))
    end_progress()
    for repair in repairs:
        click.echo(f"would repair: {repair}", err=True)
    if repairs:
        ask(f"Make {counted(len(repairs), 'repair')} of {table.uri}?", yes=yes)


def _report(
    uri: str,
    findings: Sequence[Finding],
    repairs: Sequence[Repair],
    *,
    applies: bool,
    as_json: bool,
) -> None:
    """Print what was found; exit with 1 where there are errors."""
    if as_json:
        print_json(
            {
                "findings": [finding.to_json_object() for finding in findings],
                "repairs": [str(candidate) for candidate in repairs],
                "repaired": applies,
            }
        )
    else:
        _print(uri, findings, repairs, applies=applies)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise click.exceptions.Exit(1)


def _print(
    uri: str, findings: Sequence[Finding], repairs: Sequence[Repair], *, applies: bool
) -> None:
    for repair in repairs:
        print_line(f"{'repaired' if applies else 'would repair'}: {repair}")
    for finding in findings:
        place = f" [{finding.path}]" if finding.path else ""
        print_line(f"{finding.severity}: {finding.message}{place}")
        remedy = _REPAIR if finding.repair else finding.advice
        if remedy:
            target = f" {shlex.quote(uri)}" if remedy.startswith(_COMMAND) else ""
            print_line(f"  to repair: {remedy}{target}")
    counts = Counter(finding.severity for finding in findings)
    found = ", ".join(counted(count, str(kind)) for kind in Severity if (count := counts[kind]))
    print_line(found or "No findings: the table is sound.")
