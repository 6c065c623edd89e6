"""Commands for Hudi tables, given an Iceberg table: they say so, and what serves it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.errors import TableNotFoundError
from tideline.lake_table import LakeTable

COMMANDS = {
    "report": (["report"], "`tideline show` and `tideline check`"),
    "savepoint": (["savepoint", "create"], "`tideline iceberg tag`"),
    "savepoints": (["savepoint", "list"], "`tideline iceberg tag`"),
    "index": (["index", "list"], "the bounds in its manifests"),
    "publish": (["publish"], "readers of Iceberg take it as it is"),
    "sync": (["sync"], "in its catalog"),
    "upgrade": (["upgrade", "--to", "9"], "`tideline iceberg alter upgrade`"),
    "erase": (["erase", "--where", "n = 1"], "`tideline iceberg erase`"),
    "timeline": (["list-instants"], "tideline.open_iceberg opens it"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_iceberg_table_is_named_and_what_serves_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tideline.create_iceberg(str(tmp_path / "table"), pa.schema([("n", pa.int64())]))
    (command, *rest), words = COMMANDS[name]
    arguments = [command, *rest[:1]] if command in ("savepoint", "index") else [command]
    further = rest[1:] if command in ("savepoint", "index") else rest
    assert run([*arguments, str(tmp_path / "table"), *further]) == TableNotFoundError.exit_code
    said = " ".join(capsys.readouterr().err.split())
    assert "Iceberg table" in said and words in said


@pytest.mark.parametrize("command", ["report", "publish"])
def test_where_there_is_no_table_none_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, str(tmp_path)]) == TableNotFoundError.exit_code
    said = capsys.readouterr().err
    assert "no Hudi table here" in said and "Iceberg" not in said


def test_the_facade_of_hudi_tables_names_that_of_iceberg_tables(tmp_path: Path) -> None:
    tideline.create_iceberg(str(tmp_path / "table"), pa.schema([("n", pa.int64())]))
    with pytest.raises(TableNotFoundError, match=r"but an Iceberg table: tideline\.open_iceberg"):
        LakeTable.open(str(tmp_path / "table"))
