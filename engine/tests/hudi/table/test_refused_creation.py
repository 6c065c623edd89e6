"""A table that cannot be is refused by name, and leaves nothing behind; a text is one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, TidelineError
from tideline.hudi.table.create import TableDefinition
from tideline.lake_table import LakeTable


@pytest.mark.parametrize("uri", ["/", "file:///", "//", "/tmp/.."])
def test_the_root_of_the_file_system_is_no_place_for_a_table(uri: str) -> None:
    with pytest.raises(ConfigError, match="name a folder"):
        LakeTable.create(uri, record_key="id")
    assert not Path("/.hoodie").exists()


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\0b"])
def test_control_characters_in_a_location_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="control character"):
        LakeTable.create(f"{tmp_path}/{name}", record_key="id")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("place", ["file/table", "file", f"new/deep/{'x' * 300}", "new/\ud800"])
def test_a_failed_creation_leaves_no_file_and_no_folder(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TidelineError):
        LakeTable.create(f"{tmp_path}/{place}", record_key="id")
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "table" / ".hoodie").mkdir(parents=True)
    (tmp_path / "table" / ".hoodie" / "hoodie.properties").write_bytes(b"")
    with pytest.raises(ConfigError, match="exists here already"):
        LakeTable.create(f"{tmp_path}/table", record_key="id")
    assert (tmp_path / "table" / ".hoodie" / "hoodie.properties").exists()


def test_a_text_is_one_column_or_several_with_commas(tmp_path: Path) -> None:
    table = LakeTable.create(
        f"{tmp_path}/table", record_key="id", partition_by="city", ordering=" ts, seq "
    )
    config = LakeTable.open(table.uri).hoodie_table.config
    assert config.record_key_fields == ("id",)
    assert config.partition_fields == ("city",)
    assert config.ordering_fields == ("ts", "seq")
    assert TableDefinition(name="t", record_key="a,b").record_key == ("a", "b")  # type: ignore[arg-type]
    assert TableDefinition(name="t", record_key=["id"]).record_key == ("id",)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a name is a text"):
        LakeTable.create(f"{tmp_path}/other", record_key=[1])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["a`b", "a b", "a-b", "1a", 'a"b', "a..b", "a'b", "`a`"])
def test_names_that_no_column_can_have_are_refused_at_creation(name: str, tmp_path: Path) -> None:
    for role in ("record_key", "partition_by", "ordering"):
        definition: dict[str, Any] = {"record_key": "id", role: [name]}
        with pytest.raises(ConfigError, match="column names start with a letter"):
            LakeTable.create(f"{tmp_path}/table", **definition)
    with pytest.raises(ConfigError, match="column names start with a letter"):
        schema = pa.schema([("id", pa.string()), (name, pa.string())])
        LakeTable.create(f"{tmp_path}/table", record_key="id", schema=schema)
    assert [*tmp_path.iterdir()] == []


def test_letters_of_any_alphabet_are_letters(tmp_path: Path) -> None:
    schema = pa.schema([("größe", pa.string()), ("名前", pa.string())])
    table = LakeTable.create(f"{tmp_path}/table", record_key="größe", schema=schema)
    assert LakeTable.open(table.uri).hoodie_table.config.record_key_fields == ("größe",)


def test_one_partition_is_not_taken_for_its_letters(tmp_path: Path) -> None:
    table = LakeTable.create(f"{tmp_path}/table", record_key="id", partition_by="city")
    with pytest.raises(TidelineError, match="Oslo"):
        table.delete_partitions("Oslo")
