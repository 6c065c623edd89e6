"""`tideline check`: is the table sound, and what mends it if not?"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

import click

from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.errors import ConfigError
from tideline.hudi.check.finding import Finding, Repair, Severity
from tideline.hudi.check.repair import plan_repairs
from tideline.lake_table import LakeTable
from tideline.wording import counted

_COMMAND = "tideline "
_REPAIR = "tideline check --repair --apply"


@click.command("check")
@table_options
@click.option(
    "--keys", is_flag=True, help="Also look for keys stored twice; reads the key columns."
)
@click.option(
    "--across-partitions",
    is_flag=True,
    help="With --keys: a key in two partitions is a finding in any table, not only in one whose "
    "keys are unique as a whole.",
)
@click.option("--repair", is_flag=True, help="Say what would be mended; with --apply, mend it.")
@click.option("--apply", "applies", is_flag=True, help="With --repair: do it.")
def check_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    keys: bool,
    across_partitions: bool,
    repair: bool,
    applies: bool,
) -> None:
    """Check the table at URI: timeline, files, archive, leftovers. Changes nothing by itself.

    Exit code 1 when there are errors. --repair is a dry run; what it would do loses nothing that
    was committed.
    """
    if applies and not repair:
        raise ConfigError("--apply goes with --repair")
    if across_partitions and not keys:
        raise ConfigError("--across-partitions goes with --keys")
    table = LakeTable.open(uri, storage_options=storage)
    repairs: Sequence[Repair] = table.repair(keys=keys) if applies else ()
    findings = table.check(keys=keys, across_partitions=across_partitions)
    if repair and not applies:
        repairs = plan_repairs(findings)
    if as_json:
        print_json(
            {
                "findings": [finding.to_json_object() for finding in findings],
                "repairs": [str(one) for one in repairs],
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
    for one in repairs:
        print_line(f"{'repaired' if applies else 'would repair'}: {one}")
    for finding in findings:
        place = f" [{finding.path}]" if finding.path else ""
        print_line(f"{finding.severity}: {finding.message}{place}")
        mends = _REPAIR if finding.repair else finding.advice
        if mends:
            target = f" {shlex.quote(uri)}" if mends.startswith(_COMMAND) else ""
            print_line(f"  mend it: {mends}{target}")
    counts = Counter(finding.severity for finding in findings)
    told = ", ".join(counted(count, str(kind)) for kind in Severity if (count := counts[kind]))
    print_line(told or "No findings: the table is sound.")
