"""Tables where one file is something else: what every command makes of them, in one process.

`print_outcomes` makes a small sound table, and puts each kind of hostility in the place of each of
its files in turn. Commands that look, plan, check and read run on every such table, under a limit
on memory of the whole process. For each it prints one JSON line (`Outcome`). A command that does
not end is reported, and the process ends with it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tideline.bounded.read_limits import SETTING
from tideline.errors import TidelineError
from tideline.hudi.table.table_config import TableType
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.open_table import IcebergTable
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.in_time import in_time
from tideline.testing.small_table import SmallTable, batch

COMMAND_S: Final = 20.0
"""The longest that one command on a table of a few kilobytes may take."""
_OBJECT_LIMIT: Final = "1Mi"
_MEMORY_BYTES: Final = 4 * 1024**3
"""Of data in the process, beyond which allocations fail. Arrow alone reserves more than one."""
_SPARSE_BYTES: Final = 2**40
_LEVELS: Final = 100_000
_LONG_AGO_S: Final = 1_000_000_000


def fifo(place: Path, _: Path) -> None:
    os.mkfifo(place)


def listening(place: Path, _: Path) -> None:
    # The name of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{short}/s")
        shutil.move(f"{short}/s", place)


def link_to_zeros(place: Path, _: Path) -> None:
    place.symlink_to("/dev/zero")


def link_to_environment(place: Path, _: Path) -> None:
    place.symlink_to("/proc/self/environ")


def link_to_twin(place: Path, outside: Path) -> None:
    """What is behind it is sound: a reader that follows it notices nothing."""
    place.symlink_to(outside)


def link_to_nothing(place: Path, _: Path) -> None:
    place.symlink_to("nothing")


def link_to_itself(place: Path, _: Path) -> None:
    place.symlink_to(place.name)


def directory(place: Path, _: Path) -> None:
    place.mkdir()


def sparse(place: Path, _: Path) -> None:
    place.touch()
    os.truncate(place, _SPARSE_BYTES)


def nested(place: Path, _: Path) -> None:
    place.write_bytes(b'{"a":[' * _LEVELS)


def odd_name(place: Path, outside: Path) -> None:
    """The file under its own name, and one beside it that no store can hold."""
    shutil.copy(outside, place)
    odd = os.fsencode(place.parent) + b"/\xff\n\\..%2f" + os.fsencode(place.name)
    Path(os.fsdecode(odd)).write_bytes(outside.read_bytes())


KINDS: Final[Mapping[str, Callable[[Path, Path], None]]] = {
    function.__name__: function
    for function in (fifo, listening, link_to_zeros, link_to_environment, link_to_twin,
                link_to_nothing, link_to_itself, directory, sparse, nested, odd_name)
}  # fmt: skip
UNOPENED: Final = ("fifo", "listening", "link_to_zeros", "link_to_environment", "link_to_twin")
"""Kinds that are never opened: a command names them, or it does without the file."""

_ROWS: Final = "rows"
"""No command: the rows of an Iceberg table, as a rewrite reads them."""
COMMANDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "hudi": (
        ("list-instants", "{}"),
        ("list-files", "{}"),
        ("check", "{}"),
        ("plan", "{}"),
        ("read", "{}"),
    ),
    "iceberg": (
        ("iceberg", "show", "{}"),
        ("iceberg", "plan", "{}"),
        ("iceberg", "expire", "{}", "--dry-run"),
        ("iceberg", "remove-orphans", "{}", "--dry-run"),
        (_ROWS, "{}"),
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one command made of one table. `kind` and `file` are empty for the sound table."""

    kind: str
    file: str
    command: str
    exit_code: int
    output: str
    error: str
    seconds: float
    read_outside: bool


Run = Callable[[Sequence[str]], int]
"""The command line: it prints, and gives the exit code."""


def run_all(run: Run, folder: Path, table_format: str) -> Iterator[Outcome]:
    """The sound table first, then each of its files as each kind."""
    sound = folder / "sound"
    _MAKERS[table_format](sound)
    files = sorted(path.relative_to(sound) for path in sound.rglob("*") if path.is_file())
    table = folder / "table"
    outside = folder / "outside"
    for name, kind in [("", None), *KINDS.items()]:
        for file in files if kind is not None else files[:1]:
            shutil.rmtree(table, ignore_errors=True)
            shutil.copytree(sound, table)
            shutil.copy(sound / file, outside)
            os.utime(outside, (_LONG_AGO_S, _LONG_AGO_S + 1))
            before = outside.stat().st_atime_ns
            if kind is not None:
                (table / file).unlink()
                kind(table / file, outside)
            os.utime(outside, (_LONG_AGO_S, _LONG_AGO_S + 1))
            for command in COMMANDS[table_format]:
                code, output, error, seconds = _said(run, [part.format(table) for part in command])
                yield Outcome(
                    kind=name,
                    file=str(file) if kind is not None else "",
                    command=" ".join(part for part in command if part != "{}"),
                    exit_code=code,
                    output=output,
                    error=error,
                    seconds=seconds,
                    read_outside=outside.stat().st_atime_ns != before,
                )


def notices_reads(folder: Path) -> bool:
    """Whether the file system says that a file was read, as `Outcome.read_outside` needs."""
    file = folder / "noticed"
    file.write_bytes(b"x")
    os.utime(file, (_LONG_AGO_S, _LONG_AGO_S + 1))
    file.read_bytes()
    return file.stat().st_atime > _LONG_AGO_S


def _said(run: Run, arguments: list[str]) -> tuple[int, str, str, float]:
    output, error = io.StringIO(), io.StringIO()
    start_s = time.monotonic()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        if arguments[0] == _ROWS:
            code = in_time(lambda: _print_rows(arguments[1]), limit_s=COMMAND_S)
        else:
            code = in_time(lambda: run([*arguments, "--json"]), limit_s=COMMAND_S)
    return code, output.getvalue(), error.getvalue(), time.monotonic() - start_s


def _print_rows(uri: str) -> int:
    try:
        table = IcebergTable.open(uri)
        snapshot, reader = (
            table.metadata.snapshot(),
            FileRows(table.io, RowLayout.of(table.metadata)),
        )
        assert snapshot is not None
        for task in plan_files(table.io, table.metadata, snapshot):
            for rows in reader.batches(task):
                print(rows.to_pylist())
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        print(f"unexpected {error!r}", file=sys.stderr)
        return 1
    return 0


def _hudi(folder: Path) -> None:
    """A merge-on-read table with base files, a log and a metadata table."""
    table = SmallTable.create(
        StoreLocation.of(folder),
        table_type=TableType.MERGE_ON_READ,
        properties={"hoodie.metadata.enable": "true"},
    )
    table.write("upsert", batch(range(4), 1))
    table.write("upsert", batch(range(2), 2))


def _iceberg(folder: Path) -> None:
    """A table with a data file, and positions deleted from it."""
    table = DeleteTable(IcebergModel.create_in(str(folder)))
    table.append("a", [2, 4, 6])
    table.delete({"a": [1]})


_MAKERS: Final[Mapping[str, Callable[[Path], None]]] = {"hudi": _hudi, "iceberg": _iceberg}


def print_outcomes(run: Run, folder: Path, table_format: str) -> None:
    """Print the outcomes, and the most memory that the process took, in bytes."""
    os.environ[SETTING] = _OBJECT_LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    printed = sys.stdout
    for outcome in run_all(run, folder, table_format):
        print(json.dumps(asdict(outcome)), file=printed, flush=True)
    print(_peak_bytes(), file=printed)


def _peak_bytes() -> int:
    """The most memory since this program began; `getrusage` counts what the process was before."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text("utf-8").splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024
