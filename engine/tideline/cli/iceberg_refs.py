"""`tideline iceberg branch`, `tag`, `rollback` and `publish`: names of snapshots."""

from __future__ import annotations

from typing import Any

import click

from tideline.cli.command import TidelineCommand, WholeWordContext, command
from tideline.cli.iceberg_change import asked_change_options, change_options, run_change
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.moment import parse_moment
from tideline.cli.output import print_json, print_line, print_table
from tideline.errors import ConfigError
from tideline.iceberg.evolution.refs import (
    BRANCH,
    TAG,
    CreateRef,
    DropRef,
    FastForward,
    PublishStaged,
    RenameRef,
    Retain,
    Retention,
    Rollback,
)

_AS_OF = click.option(
    "--as-of", metavar="SNAPSHOT|NAME|TIME", help="Where; else where the main branch is."
)


@click.group("branch")
def branch_command() -> None:
    """Create, move and drop branches of a table.

    Write to a branch, look at it, and fast-forward main to it: readers see all of it or nothing.
    """


@click.group("tag")
def tag_command() -> None:
    """Create, move and drop tags of a table: names of snapshots that are kept."""


for _group in (branch_command, tag_command):
    _group.context_class = WholeWordContext


def _keeping(function: Any) -> Any:
    for option in (
        click.option("--snapshot-age", metavar="AGE", help="How long its snapshots are kept: 7d."),
        click.option("--min-snapshots", type=int, metavar="N", help="How many are kept at least."),
        click.option("--keep", metavar="AGE", help="How long the branch is kept, such as 30d."),
    ):
        function = option(function)
    return function


@branch_command.command("create", cls=TidelineCommand)
@change_options
@click.argument("name")
@_AS_OF
@click.option("--if-not-exists", "if_absent", is_flag=True, help="Leave one that is there.")
@_keeping
def create_branch_command(
    source: TableSource,
    name: str,
    as_of: str | None,
    if_absent: bool,
    keep: str | None,
    min_snapshots: int | None,
    snapshot_age: str | None,
    **how: Any,
) -> None:
    """Create the branch NAME of TABLE."""
    kept = _retention(keep, min_snapshots, snapshot_age)
    run_change(source, CreateRef(name, BRANCH, as_of, kept, if_absent=if_absent), **how)


@branch_command.command("replace", cls=TidelineCommand)
@change_options
@click.argument("name")
@_AS_OF
def replace_branch_command(source: TableSource, name: str, as_of: str | None, **how: Any) -> None:
    """Take the branch NAME of TABLE elsewhere, whatever it leads to; created where it is not."""
    run_change(source, CreateRef(name, BRANCH, as_of, replaces=True), **how)


@branch_command.command("fast-forward", cls=TidelineCommand)
@change_options
@click.argument("name")
@click.argument("to")
def fast_forward_command(source: TableSource, name: str, to: str, **how: Any) -> None:
    """Take the branch NAME of TABLE to where the branch TO is, which must be ahead of it."""
    run_change(source, FastForward(name, to), **how)


@branch_command.command("rename", cls=TidelineCommand)
@change_options
@click.argument("name")
@click.argument("new_name")
def rename_branch_command(source: TableSource, name: str, new_name: str, **how: Any) -> None:
    """Rename the branch NAME of TABLE to NEW_NAME."""
    run_change(source, RenameRef(name, BRANCH, new_name), **how)


@branch_command.command("retain", cls=TidelineCommand)
@change_options
@click.argument("name")
@_keeping
def retain_branch_command(
    source: TableSource,
    name: str,
    keep: str | None,
    min_snapshots: int | None,
    snapshot_age: str | None,
    **how: Any,
) -> None:
    """Say how long the branch NAME of TABLE and its snapshots are kept."""
    kept = _retention(keep, min_snapshots, snapshot_age)
    run_change(source, Retain(name, BRANCH, kept), **how)


@branch_command.command("drop", cls=TidelineCommand)
@asked_change_options
@click.argument("name")
@click.option("--if-exists", "if_present", is_flag=True, help="None of the name is no mistake.")
def drop_branch_command(source: TableSource, name: str, if_present: bool, **how: Any) -> None:
    """Drop the branch NAME of TABLE; its snapshots are expired with the next ones."""
    question = f"Drop branch {name} of {source.target}, with what it alone leads to?"
    run_change(source, DropRef(name, BRANCH, if_present), question=question, **how)


@branch_command.command("list", cls=TidelineCommand)
@iceberg_table_options
def list_branches_command(source: TableSource, as_json: bool) -> None:
    """List the branches of TABLE."""
    _list(source, BRANCH, as_json=as_json)


@tag_command.command("create", cls=TidelineCommand)
@change_options
@click.argument("name")
@_AS_OF
@click.option("--if-not-exists", "if_absent", is_flag=True, help="Leave one that is there.")
@click.option("--keep", metavar="AGE", help="How long the tag is kept, such as 30d.")
def create_tag_command(
    source: TableSource,
    name: str,
    as_of: str | None,
    if_absent: bool,
    keep: str | None,
    **how: Any,
) -> None:
    """Create the tag NAME of TABLE."""
    kept = _retention(keep, None, None)
    run_change(source, CreateRef(name, TAG, as_of, kept, if_absent=if_absent), **how)


@tag_command.command("replace", cls=TidelineCommand)
@change_options
@click.argument("name")
@_AS_OF
def replace_tag_command(source: TableSource, name: str, as_of: str | None, **how: Any) -> None:
    """Take the tag NAME of TABLE elsewhere; created where it is not."""
    run_change(source, CreateRef(name, TAG, as_of, replaces=True), **how)


@tag_command.command("retain", cls=TidelineCommand)
@change_options
@click.argument("name")
@click.option("--keep", metavar="AGE", required=True, help="How long, such as 30d.")
def retain_tag_command(source: TableSource, name: str, keep: str, **how: Any) -> None:
    """Say how long the tag NAME of TABLE is kept."""
    run_change(source, Retain(name, TAG, _retention(keep, None, None)), **how)


@tag_command.command("drop", cls=TidelineCommand)
@asked_change_options
@click.argument("name")
@click.option("--if-exists", "if_present", is_flag=True, help="None of the name is no mistake.")
def drop_tag_command(source: TableSource, name: str, if_present: bool, **how: Any) -> None:
    """Drop the tag NAME of TABLE; its snapshot is expired with the next ones."""
    question = f"Drop tag {name} of {source.target}, with what it alone leads to?"
    run_change(source, DropRef(name, TAG, if_present), question=question, **how)


@tag_command.command("list", cls=TidelineCommand)
@iceberg_table_options
def list_tags_command(source: TableSource, as_json: bool) -> None:
    """List the tags of TABLE."""
    _list(source, TAG, as_json=as_json)


@command("rollback")
@change_options
@click.argument("to", metavar="SNAPSHOT|NAME|TIME")
@click.option(
    "--any-snapshot", is_flag=True, help="Also to one that main did not come from, as of a branch."
)
def rollback_command(source: TableSource, to: str, any_snapshot: bool, **how: Any) -> None:
    """Take the main branch of TABLE back to what it was; later snapshots are kept until expired.

    To a snapshot that it came from, or to what it was at a time.
    """
    run_change(source, Rollback(to, any_snapshot), **how)


@command("publish")
@change_options
@click.argument("wap_id", metavar="WAP_ID")
def publish_command(source: TableSource, wap_id: str, **how: Any) -> None:
    """Take the main branch of TABLE to the snapshot that was staged under WAP_ID.

    That is what Spark writes with spark.wap.id. A snapshot that the main branch has moved on from
    is refused: write to a branch instead, and fast-forward.
    """
    run_change(source, PublishStaged(wap_id), **how)


def _list(source: TableSource, kind: str, *, as_json: bool) -> None:
    refs = source.open().metadata.refs
    rows = [(name, ref) for name, ref in sorted(refs.items()) if ref.type == kind]
    if as_json:
        print_json({"refs": [{"name": name, **ref.json()} for name, ref in rows]})
        return
    if not rows:
        print_line(f"The table has no {kind}.")
        return
    headers = ("name", "snapshot", "kept ms", "snapshots at least", "snapshots kept ms")
    print_table(
        headers,
        [
            (
                name,
                str(ref.snapshot_id),
                ref.max_ref_age_ms,
                ref.min_snapshots_to_keep,
                ref.max_snapshot_age_ms,
            )
            for name, ref in rows
        ],
    )


def _retention(keep: str | None, min_snapshots: int | None, snapshot_age: str | None) -> Retention:
    return Retention(
        _age_ms(keep, "--keep"), min_snapshots, _age_ms(snapshot_age, "--snapshot-age")
    )


def _age_ms(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    # As of the beginning of time, an age is how far before it lies.
    age_ms = -parse_moment(text, now_ms=0, option=option)
    if age_ms <= 0:
        raise ConfigError(f"{option} takes an age such as 7d", value=text)
    return age_ms
