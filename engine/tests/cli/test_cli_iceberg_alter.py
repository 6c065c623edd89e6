"""`tideline iceberg alter`, `branch`, `tag`, `rollback`, `publish`: what they do and say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tideline
from tideline.cli.main import run
from tideline.testing.iceberg_model import IcebergModel

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    IcebergModel.create_in(str(tmp_path / "orders"), 2)
    return str(tmp_path / "orders")


@pytest.fixture
def command(uri: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """`tideline iceberg`; `TABLE` is the table."""

    def called(*words: str) -> tuple[int, str]:
        code = run(["iceberg", *(uri if word == "TABLE" else word for word in words)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return called


def test_every_change_of_a_definition(uri: str, command: Command) -> None:
    for words, said in (
        ("add-column TABLE total decimal(9,2) --first --comment sum", "add column total"),
        ("add-column TABLE place struct<city:string>", "add column place"),
        ("add-column TABLE place.zip int --before city", "add column place.zip of type int"),
        ("change-type TABLE place.zip long", "change column place.zip to type long"),
        ("rename-column TABLE total sum", "rename column total to sum"),
        ("set-comment TABLE sum all", "set the comment of column sum"),
        ("move-column TABLE sum --after number", "move column sum after number"),
        ("set-identifier-fields TABLE number", "identify rows by number"),
        ("set-identifier-fields TABLE", "have no identifier fields"),
        ("set-optional TABLE number", "make column number optional"),
        ("add-partition-field TABLE bucket(4,number) --name shard", "as shard"),
        ("rename-partition-field TABLE shard part", "rename partition field shard to part"),
        ("replace-partition-field TABLE part truncate(10,number)", "partition by truncate"),
        ("drop-partition-field TABLE parity", "partition by parity no more"),
        ("drop-column TABLE place", "drop column place"),
        ("upgrade TABLE 3", "upgrade to format version 3"),
        ("set-default TABLE sum 1.50", "set the default of column sum"),
        ("set-properties TABLE a=b c=d", "set a=b, c=d"),
        ("unset-properties TABLE a", "unset a"),
    ):
        code, printed = command("alter", *words.split())
        assert code == 0 and said in printed, (words, printed)
    assert command("alter", "set-sort-order", "TABLE", "number DESC")[0] == 0
    metadata = tideline.open_iceberg(uri).metadata
    assert [field.name for field in metadata.schema().fields] == ["number", "sum", "parity"]
    assert metadata.schema().fields[1].write_default == "1.50"
    assert [field.name for field in metadata.spec().fields] == ["number_trunc_10"]
    assert metadata.sort_order().fields[0].is_descending
    assert (metadata.format_version, metadata.properties["c"]) == (3, "d")
    assert tideline.open_iceberg(uri).metadata.snapshot() is not None


def test_branches_tags_and_rollback(uri: str, command: Command) -> None:
    first, second = (str(s.snapshot_id) for s in tideline.open_iceberg(uri).snapshots)
    assert command("branch", "create", "TABLE", "audit", "--as-of", first, "--keep", "7d")[0] == 0
    assert command("branch", "retain", "TABLE", "audit", "--min-snapshots", "3")[0] == 0
    assert command("tag", "create", "TABLE", "v1", "--as-of", second)[0] == 0
    assert command("branch", "rename", "TABLE", "audit", "checked")[0] == 0
    assert first in command("branch", "list", "TABLE")[1]
    listed: dict[str, Any] = json.loads(command("tag", "list", "TABLE", "--json")[1])
    assert listed["refs"] == [{"name": "v1", "snapshot-id": int(second), "type": "tag"}]
    assert command("rollback", "TABLE", "checked")[0] == 0
    assert str(tideline.open_iceberg(uri).refs["main"].snapshot_id) == first
    code, printed = command("rollback", "TABLE", "v1")
    assert code == 2 and "is not an ancestor" in printed
    assert command("branch", "fast-forward", "TABLE", "main", "v1")[0] == 0
    assert command("tag", "replace", "TABLE", "v1", "--as-of", first)[0] == 0
    assert command("tag", "retain", "TABLE", "v1", "--keep", "30d")[0] == 0
    refs = tideline.open_iceberg(uri).refs
    assert (refs["v1"].snapshot_id, refs["v1"].max_ref_age_ms) == (int(first), 30 * 86_400_000)
    assert (refs["checked"].min_snapshots_to_keep, refs["checked"].max_ref_age_ms) == (
        3,
        7 * 86_400_000,
    )
    assert command("branch", "drop", "TABLE", "checked", "--yes")[0] == 0
    assert command("tag", "drop", "TABLE", "v1")[0] == 0
    assert list(tideline.open_iceberg(uri).refs) == ["main"]
    assert command("tag", "list", "TABLE")[1] == "The table has no tag.\n"
    assert command("publish", "TABLE", "w1")[0] == 2
    code, printed = command("tag", "create", "TABLE", "v2", "--keep", "2026-01-01")
    assert code == 2 and "an age such as 7d" in printed


def test_a_dry_run_changes_nothing_and_a_second_run_has_nothing_to_do(
    uri: str, command: Command
) -> None:
    before = tideline.open_iceberg(uri).table.loaded.metadata_location
    code, printed = command("alter", "drop-column", "TABLE", "number", "--dry-run")
    assert (code, printed) == (0, "Would drop column number.\n")
    dry = json.loads(command("alter", "upgrade", "TABLE", "3", "--dry-run", "--json")[1])
    assert (dry["dry_run"], dry["metadata"], dry["is_empty"]) == (True, None, False)
    assert tideline.open_iceberg(uri).table.loaded.metadata_location == before
    done = json.loads(command("alter", "set-properties", "TABLE", "a=b", "--json")[1])
    assert done["metadata"] == tideline.open_iceberg(uri).table.loaded.metadata_location
    assert "so already" in command("alter", "set-properties", "TABLE", "a=b")[1]
    code, printed = command("alter", "drop-column", "TABLE", "parity")
    assert code == 2 and "partitioned by it; remove field parity first" in printed
    assert command("alter", "move-column", "TABLE", "parity")[0] == 2
