"""`tideline iceberg plan`: what a rewrite of an Iceberg table's data files would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.options import parse_pairs
from tideline.cli.output import print_json, print_line, print_table
from tideline.cli.progress import progress
from tideline.formats.filter import Filter
from tideline.iceberg.data.copy_rules import Treatment
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_data_files.arguments import RewriteArguments
from tideline.iceberg.services.rewrite_data_files.copy_survey import GroupSurvey, survey_groups
from tideline.iceberg.services.rewrite_data_files.left_files import NAMED_MAX, Skipped
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan
from tideline.iceberg.services.rewrite_data_files.table_plan import (
    group_partition,
    plan_json,
    plan_table_rewrite,
)
from tideline.iceberg.table.open_table import IcebergTable
from tideline.wording import counted, size_text

_GROUPS_SHOWN_MAX = 20
_NAMED_SHOWN_MAX = 10

_OPTIONS = (
    click.option(
        "--strategy",
        type=click.Choice(["binpack", "sort", "zorder"]),
        help="How rows are laid out; binpack, or sort when there is a sort order.",
    ),
    click.option(
        "--sort-order",
        metavar="TERMS",
        help="Such as 'day, id DESC NULLS LAST' or 'zorder(x, y)'; else the table's own.",
    ),
    click.option(
        "--where",
        metavar="SQL",
        help="Only files that may hold rows of this condition, such as \"day >= '2026-11-01'\".",
    ),
    click.option(
        "--option",
        "options",
        metavar="NAME=VALUE",
        multiple=True,
        help="An option of Iceberg's rewrite_data_files; may be repeated.",
    ),
    click.option("--branch", default=MAIN, show_default=True, help="The branch to rewrite."),
)


def rewrite_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what says which files to rewrite and how."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@command("plan")
@iceberg_table_options
@rewrite_options
def plan_command(source: TableSource, as_json: bool, **asked: Any) -> None:
    """Say which files of TABLE a rewrite would take, into how many, and why; change nothing."""
    show_plan(source.open(), as_json=as_json, **asked)


def show_plan(table: IcebergTable, *, as_json: bool, branch: str, **asked: Any) -> None:
    """Plan and print; nothing is changed."""
    metadata, (options, where) = table.metadata, rewrite_asked(table.metadata, **asked)
    plan = plan_table_rewrite(table.io, metadata, options, where=where, branch=branch)
    with progress("reading footers"):
        surveys = survey_groups(table.io, metadata, options, plan)
    if as_json:
        print_json({"table": table.io.location.uri, **plan_json(plan, metadata, surveys)})
    else:
        print_plan(plan, metadata, surveys)


def rewrite_asked(
    metadata: TableMetadata, *, options: tuple[str, ...], **asked: str | None
) -> tuple[RewriteOptions, Filter]:
    """What the options of the command say, and which rows it is for. Raises ConfigError naming
    one."""
    given = parse_pairs(options, option="--option")
    found = RewriteArguments.asked(given, metadata, **asked)
    return found.options, found.where


def print_plan(plan: RewritePlan, metadata: TableMetadata, surveys: Sequence[GroupSurvey]) -> None:
    """A plan as people read it."""
    if plan.groups:
        print_line(
            f"{counted(plan.files_before, 'file')}, {size_text(plan.bytes_before)}, would become "
            f"about {counted(plan.files_after, 'file')}, {size_text(plan.bytes_after)}."
        )
        rate = round(plan.benefit_per_core_second)
        print_line(
            f"Saves {plan.benefit.words}, for {plan.core_seconds:.2f} core-seconds or so: worth "
            f"{'-' * (rate < 0)}{size_text(abs(rate))} not read per core-second."
        )
        print_line()
        print_table(
            ("partition", "files", "size", "files after", "size after", "copied", "because"),
            [
                (
                    group_partition(group, metadata) or "-",
                    len(group.tasks),
                    size_text(group.input_bytes),
                    group.outputs_expected,
                    size_text(group.output_bytes_expected),
                    size_text(survey.copied.size_bytes),
                    group.reason.value,
                )
                for group, survey in list(zip(plan.groups, surveys, strict=True))[
                    :_GROUPS_SHOWN_MAX
                ]
            ],
        )
        if len(plan.groups) > _GROUPS_SHOWN_MAX:
            print_line(f"... and {counted(len(plan.groups) - _GROUPS_SHOWN_MAX, 'more group')}")
        _print_treatments(surveys)
    else:
        print_line("Nothing to rewrite.")
    if plan.skipped:
        print_line()
    print_left(plan.skipped)


def print_left(skipped: Iterable[Skipped]) -> None:
    """What stays as it is, and which of it cannot be rewritten."""
    for candidate in skipped:
        left = counted(candidate.files, "file")
        stays = "stays" if candidate.files == 1 else "stay"
        print_line(f"{left}, {size_text(candidate.size_bytes)}, {stays}: {candidate.reason.value}.")
        for name in candidate.named[:_NAMED_SHOWN_MAX]:
            print_line(f"  {name}")
        if len(candidate.named) > _NAMED_SHOWN_MAX:
            print_line(f"  and more; --json names up to {NAMED_MAX}")


def _print_treatments(surveys: Sequence[GroupSurvey]) -> None:
    """What is copied and what is re-encoded, in all groups, and why."""
    size_bytes: Counter[Treatment] = Counter()
    for survey in surveys:
        size_bytes.update({entry: share.size_bytes for entry, share in survey.shares.items()})
    print_line()
    kept = ((Treatment.COPIED, "copied as stored"), (Treatment.TRANSCODED, "recompressed"))
    for treatment, what in kept:
        shares = [survey.shares[treatment] for survey in surveys if treatment in survey.shares]
        if shares:
            row_groups = counted(sum(share.row_groups for share in shares), "row group")
            print_line(f"{row_groups}, {size_text(size_bytes.pop(treatment))}: {what}.")
    for candidate, encoded in size_bytes.most_common():
        print_line(f"{size_text(encoded)}: re-encoded: {candidate.value}.")
