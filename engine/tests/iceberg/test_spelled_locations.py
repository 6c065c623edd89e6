"""One file under several spellings of its location: it is the table's, and no orphan."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.clock import SystemClock
from tideline.iceberg.services.file_place import FilePlaces
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation


@pytest.mark.parametrize(
    "path",
    [
        "{0}/data",
        "file://{0}//data",
        "file:{0}//data",
        "{0}//data",
        "file://{0}/data//deep/",
        "file://{0}///data",
    ],
)
def test_files_below_a_path_with_empty_names_stay(path: str, tmp_path: Path) -> None:
    columns = pa.schema([pa.field("id", pa.int64())])
    location = f"{tmp_path}/table"
    properties = {"write.data.path": path.format(location)}
    table = tideline.create_iceberg(f"file://{location}", columns, properties=properties)
    table.write([{"id": 1}])
    stray = tmp_path / "table" / "data" / "stray.parquet"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"stray")
    options = OrphanOptions(older_than_ms=SystemClock().now_ms() + 60_000, is_forced=True)
    plan = plan_orphans(table.table.operations, options)
    assert [Path(orphan.location).name for orphan in plan.orphans] == ["stray.parquet"]
    execute_orphans(table.table.operations, plan)
    assert not stray.exists()
    assert table.to_arrow()["id"].to_pylist() == [1]
    assert not table.check()


@pytest.mark.parametrize(
    ("location", "path", "declared"),
    [
        ("link/t", "real/t/data", "real"),
        ("real/t", "link/t/data", "link"),
        ("real/t", "real/t/alias", ""),
    ],
)
def test_files_stay_that_are_named_by_way_of_a_link(
    location: str, path: str, declared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "t" / "data").mkdir(parents=True)
    (tmp_path / "real" / "t" / "alias").symlink_to(tmp_path / "real" / "t" / "data")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    if declared:
        monkeypatch.setenv("TIDELINE_EXTRA_LOCATIONS", f"{tmp_path}/{declared}")
    columns = pa.schema([pa.field("id", pa.int64())])
    properties = {"write.data.path": f"{tmp_path}/{path}"}
    table = tideline.create_iceberg(f"{tmp_path}/{location}", columns, properties=properties)
    table.write([{"id": 1}])
    stray = tmp_path / "real" / "t" / "data" / "stray.parquet"
    stray.write_bytes(b"stray")
    options = OrphanOptions(older_than_ms=SystemClock().now_ms() + 60_000, is_forced=True)
    plan = plan_orphans(table.table.operations, options)
    assert [Path(orphan.location).name for orphan in plan.orphans] == ["stray.parquet"]
    execute_orphans(table.table.operations, plan)
    assert table.to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    "spelled",
    [
        "/lake/t/data/f",
        "/lake/t//data/f",
        "/lake//t/data/f",
        "/lake/t/./data/f",
        "/lake/t/old/../data/f",
        "/lake/t/../t/data//f",
        "file:/lake/t/data/f",
        "file:///lake/t//data/./f",
        "file:///lake/x/../t/data/f",
    ],
)
@pytest.mark.parametrize("recorded", ["/lake/t", "file:///lake/t", "file:/lake/t/"])
def test_a_file_of_this_machine_has_one_place(spelled: str, recorded: str) -> None:
    places = FilePlaces(FileIO(StoreLocation("file:///lake/t"), recorded))
    assert places.of(spelled) == "file:///lake/t/data/f"


def test_names_with_dots_are_names() -> None:
    places = FilePlaces(FileIO(StoreLocation("file:///lake/t"), "/lake/t"))
    assert places.of("/lake/t/data/.hidden/..f") == "file:///lake/t/data/.hidden/..f"
    bucket = FilePlaces(FileIO(StoreLocation("s3://lake/t"), "s3://lake/t"))
    assert bucket.of("s3a://lake/t/./data/f") == "s3://lake/t/./data/f"
