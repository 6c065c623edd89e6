"""Entry point: finds the command, runs it, turns errors into one line and an exit code.

Commands are named here with their one-line help and imported when called, so `tideline --help` and
the commands that move no rows start without Spark or Arrow. Other packages add commands through the
entry point group `tideline.commands`.

Exit codes: 0 done, 1 the table or data is at fault, 2 usage, 3 conflict (safe to retry), 4 storage
unreachable (safe to retry), 5 outcome unknown (look before repeating), 6 of `run`: files were set
aside. With TIDELINE_DEBUG=1 in the environment an error also prints its traceback.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

import click
from click.shell_completion import shell_complete

from tideline.cli.command import COMPLETION_VARIABLE, WholeWordContext
from tideline.cli.consent import Declined
from tideline.cli.default_engine import spare_pandas
from tideline.cli.lazy_group import LazyGroup
from tideline.distribution import DISTRIBUTION, what_to_install
from tideline.errors import ConfigError, TidelineError, error_kind
from tideline.masked_stream import mask_standard_error, masked_standard_error
from tideline.secret_values import masked_json

_COMMANDS = {
    "init": ("tideline.cli.init:init_command", "Write a LakeTable from files in a folder."),
    "create": ("tideline.cli.create:create_command", "Create an empty table."),
    "adopt": (
        "tideline.cli.adopt:adopt_command",
        "Report what another engine's table is, and what may be done with it.",
    ),
    "show": ("tideline.cli.show:show_command", "Describe a table: keys, schema, counts."),
    "list-instants": (
        "tideline.cli.timeline:list_instants_command",
        "List what was done to a table.",
    ),
    "check": ("tideline.cli.check:check_command", "Find and repair what is wrong with a table."),
    "verify": (
        "tideline.cli.verify:verify_command",
        "Compare a table with the source it is made of.",
    ),
    "resync": (
        "tideline.cli.resync:resync_command",
        "Have a table copied again from its source, into itself.",
    ),
    "check-store": (
        "tideline.cli.check_store:check_store_command",
        "Find out whether concurrent writers are safe on a store.",
    ),
    "list-files": ("tideline.cli.files:list_files_command", "List the files a reader sees."),
    "report": ("tideline.cli.report:report_command", "Write a page about a table."),
    "ui": ("tideline.cli.ui:ui_command", "Serve pages about many tables."),
    "write": ("tideline.cli.write:write_command", "Write source files into a table."),
    "read": ("tideline.cli.read:read_command", "Print rows, or the answer to a query."),
    "changes": (
        "tideline.cli.changes:changes_command",
        "Print what commits did to rows: inserted, updated, deleted.",
    ),
    "sql": ("tideline.cli.sql:sql_command", "Answer queries over tables, or at a prompt."),
    "plan": ("tideline.cli.execute:plan_command", "Show what a service would do, and why."),
    "declare": (
        "tideline.cli.declare:declare_command",
        "Store in a table what its files do not say.",
    ),
    "savepoint": (
        "tideline.cli.savepoint:savepoint_command",
        "Keep a state of a table to restore later.",
    ),
    "index": (
        "tideline.cli.index:index_command",
        "Make, list and drop indexes of a table.",
    ),
    "upgrade": ("tideline.cli.upgrade:upgrade_command", "Bring a table to a later version."),
    "downgrade": ("tideline.cli.upgrade:downgrade_command", "Bring a table to an earlier version."),
    "restore": ("tideline.cli.restore:restore_command", "Restore a table to a savepoint."),
    "erase": (
        "tideline.cli.erase:erase_command",
        "Erase rows from every file of a table, with a proof.",
    ),
    "publish": (
        "tideline.cli.publish:publish_command",
        "Write Iceberg metadata over a table's files.",
    ),
    "sync": (
        "tideline.cli.sync:sync_command",
        "Register a table in a metastore, for engines that find it by name.",
    ),
    "iceberg": (
        "tideline.cli.iceberg:iceberg_command",
        "Inspect and maintain Apache Iceberg tables.",
    ),
    "execute": ("tideline.cli.execute:execute_command", "Run a service, or a planned operation."),
    "spark-history": (
        "tideline.cli.spark_history:spark_history_command",
        "Serve Spark's pages about what ran on Kubernetes.",
    ),
    "install-jars": (
        "tideline.cli.install_jars:install_jars_command",
        "Download what Spark needs for S3, once per machine.",
    ),
    "completion": (
        "tideline.cli.completion:completion_command",
        "Print the script that makes a shell complete commands.",
    ),
}
_ENTRY_POINT_GROUP = "tideline.commands"
_INTERRUPTED = 130


class MainGroup(LazyGroup):
    """The commands named here and those that other packages add."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_added_commands(), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        added = _added_commands()
        if cmd_name in self.lazy or cmd_name not in added:
            return super().get_command(ctx, cmd_name)
        command = _load_added(added[cmd_name])
        assert isinstance(command, click.Command)
        command.context_class = WholeWordContext
        return command

    def short_helps(self, ctx: click.Context) -> list[tuple[str, str]]:
        added = [(name, _short_help(entry)) for name, entry in _added_commands().items()]
        return added + super().short_helps(ctx)


@click.group(
    cls=MainGroup,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name=DISTRIBUTION, prog_name="tideline")
def tideline_command() -> None:
    """Keep Apache Hudi and Iceberg tables healthy: write, read, inspect and maintain them.

    Every command takes a table URI (a plain path, file://, s3://, gs:// or abfss://) and --json for
    machines. Credentials come from the environment only, never from arguments.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    mask_standard_error()
    spare_pandas(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with masked_standard_error():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    logging.basicConfig(format="tideline: %(message)s", level=logging.WARNING)
    if arguments is None and (instruction := os.environ.get(COMPLETION_VARIABLE)):
        return shell_complete(tideline_command, {}, "tideline", COMPLETION_VARIABLE, instruction)
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        # Not click's own main(): it would end the process where a pipe is closed.
        with tideline_command.make_context("tideline", list(arguments)) as context:
            outcome = tideline_command.invoke(context)
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        if not as_json:
            error.show()
            return ConfigError.exit_code
        line = " ".join(error.format_message().split())
        return _end("UsageError", line, ConfigError.exit_code, as_json=True)
    except Declined:
        return _end("Declined", "nothing was changed", _INTERRUPTED, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        return _end("Interrupted", "interrupted", _INTERRUPTED, as_json=as_json)
    except BrokenPipeError:
        # The reader of a pipe went away; keep the interpreter from failing again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _report(error, as_json=as_json)


def _report(error: Exception, *, as_json: bool) -> int:
    if os.environ.get("TIDELINE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, ImportError) and (message := what_to_install(error)):
        error = ConfigError(message)
    exit_code = error.exit_code if isinstance(error, TidelineError) else 1
    return _end(error_kind(error), _one_line(error), exit_code, as_json=as_json)


def _end(kind: str, line: str, exit_code: int, *, as_json: bool) -> int:
    """One line on stderr, JSON when the caller asked for JSON; returns the exit code."""
    if as_json:
        document = {"error": kind, "message": line, "exit_code": exit_code}
        print(json.dumps(masked_json(document), ensure_ascii=False), file=sys.stderr)
    else:
        print(f"tideline: {line}", file=sys.stderr)
    return exit_code


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, TidelineError):
        return text
    first = (str(error).strip().splitlines() or [""])[0]
    return f"unexpected {type(error).__name__}: {first} (TIDELINE_DEBUG=1 shows the traceback)"


def _added_commands() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=_ENTRY_POINT_GROUP)}


def _load_added(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except ImportError as error:
        reason = what_to_install(error) or str(error)
        raise ConfigError(f"the command {entry.name!r} cannot be loaded: {reason}") from error


def _short_help(entry: EntryPoint) -> str:
    try:
        command = entry.load()
    except ImportError:
        return "(not installed)"
    return str(command.get_short_help_str(limit=70))
