"""What a landing prefix shows, and how files are kept out of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.ingest.sources.files.look import list_arrived, list_arrived_after
from tideline.ingest.sources.files.quarantine import (
    note_path,
    quarantine,
    quarantine_rows,
    release_rows,
)
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo, ObjectStore
from tideline.wording import counted


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    uri = f"memory://{tmp_path.name}" if request.param == "memory" else str(tmp_path / "landing")
    return StoreLocation.of(uri).open()


def paths(landing: FileListing) -> list[str]:
    return [file.path for file in landing.files]


def objects(*found: tuple[str, int, int]) -> list[ObjectInfo]:
    return [ObjectInfo(path, size, modified, None) for path, size, modified in found]


def test_a_prefix_that_does_not_exist_is_empty(store: ObjectStore) -> None:
    found = list_arrived(store, FileFormat.PARQUET)
    assert replace(found, settle_ms=0, exists=True) == FileListing()
    assert found.exists is (store.local_path("") is None)


def test_hidden_and_empty_files_are_not_looked_at(store: ObjectStore) -> None:
    for path in ("a.csv", "day=1/b.csv", "_SUCCESS.csv", ".c.csv", "_tmp/d.csv", "x/.y/e.csv"):
        store.put(path, b"id\n1\n")
    store.put("empty.csv", b"")
    assert sorted(paths(list_arrived(store, FileFormat.CSV))) == ["a.csv", "day=1/b.csv"]


@pytest.mark.parametrize(
    ("file_format", "taken", "left"),
    [
        (FileFormat.PARQUET, ["a.parquet", "B.PARQUET", "c.snappy.parquet"], ["d.csv", "parquet"]),
        (FileFormat.CSV, ["a.csv", "b.csv.gz", "c.CSV.BZ2", "d.csv.zst"], ["e.tsv", "f.gz"]),
        (FileFormat.JSON, ["a.json", "b.jsonl", "c.ndjson.gz"], ["d.txt"]),
    ],
)
def test_files_with_other_endings_are_left_alone_and_counted(
    file_format: FileFormat, taken: list[str], left: list[str]
) -> None:
    found = FileListing.of(objects(*[(path, 1, 0) for path in (*taken, *left)]), file_format)
    assert sorted(paths(found)) == sorted(taken)
    assert found.strangers == tuple(sorted(left))
    described = found.describe_others()
    assert described is not None
    assert described.startswith(f"left alone {counted(len(left), 'file')} ")
    assert left[0] in described


def test_names_that_no_object_can_have_keep_no_other_file_out(tmp_path: Path) -> None:
    store = StoreLocation.of(str(tmp_path)).open()
    for name in (
        b"new\nline.csv",
        b"bell\x07.csv",
        b"wrong\xff.csv",
        b"del\x7f/a.csv",
        b"good.csv",
    ):
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"id\n1\n")
    for landing in (
        list_arrived(store, FileFormat.CSV),
        list_arrived_after(store, FileFormat.CSV, "a", lambda _: False),
    ):
        assert paths(landing) == ["good.csv"]
        assert len(landing.unnamable) == 4
        assert landing.describe_others() == (
            "left alone 4 files whose name has a control character or is not UTF-8, to be renamed: "
            r"'bell\x07.csv', 'del\x7f/a.csv', 'new\nline.csv', ..."
        )


def test_links_out_of_the_folder_are_not_followed_and_keep_no_other_file_out(
    tmp_path: Path,
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "landing"
    (folder / "in").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.csv").write_bytes(b"id\n1\n")
    (folder / "good.csv").write_bytes(b"id\n1\n")
    (folder / "in/file.csv").symlink_to(outside / "secret.csv")
    (folder / "folder").symlink_to(outside)
    os.mkfifo(folder / "fifo.csv")
    (folder / "inside.csv").symlink_to(folder / "good.csv")
    (folder / "again").symlink_to(folder / "in")
    (folder / "nothing.csv").symlink_to(folder / "gone.csv")
    store = StoreLocation.of(str(folder)).open()
    for landing in (
        list_arrived(store, FileFormat.CSV),
        list_arrived_after(store, FileFormat.CSV, "a", lambda _: False),
    ):
        assert sorted(paths(landing)) == ["good.csv", "inside.csv"]
        assert landing.describe_others() == (
            "left alone 3 files of another kind, such as a link out of the folder or a fifo: "
            "'fifo.csv', 'folder', 'in/file.csv'"
        )
    # A table's folder is refused as before.
    with pytest.raises((UnsupportedTableError, CorruptTableError)):
        list(store.list())


def test_files_come_in_order_of_time_then_path() -> None:
    found = FileListing.of(
        objects(("b.csv", 1, 5), ("a.csv", 1, 5), ("c.csv", 1, 4)), FileFormat.CSV
    )
    assert paths(found) == ["c.csv", "a.csv", "b.csv"]


def test_touching_replacing_or_renaming_a_file_makes_it_another() -> None:
    file = ArrivedFile("a", 10, 5)
    others = [ArrivedFile("b", 10, 5), ArrivedFile("a", 11, 5), ArrivedFile("a", 10, 6)]
    assert len({item.identity for item in (file, *others)}) == 4
    assert ArrivedFile("a", 10, 5).identity == file.identity


def test_a_quarantined_file_stays_and_is_kept_out_until_its_note_goes(store: ObjectStore) -> None:
    store.put("in/good.csv", b"id\n1\n")
    store.put("in/bad #1.csv", b"id\n1,2\n")
    bad = next(f for f in list_arrived(store, FileFormat.CSV).files if "bad" in f.path)
    quarantine(store, bad, reason="Malformed", now_ms=7)
    quarantine(store, bad, reason="Malformed", now_ms=8)
    landing = list_arrived(store, FileFormat.CSV)
    assert paths(landing) == ["in/good.csv"]
    assert landing.quarantined == (bad,)
    note = json.loads(store.get(note_path(bad)))
    assert (note["file"], note["reason"]) == ("in/bad #1.csv", "Malformed")
    store.delete(note_path(bad))
    assert len(list_arrived(store, FileFormat.CSV).files) == 2


def test_a_corrected_file_needs_no_help_to_leave_quarantine(tmp_path: Path) -> None:
    store = StoreLocation.of(str(tmp_path)).open()
    store.put("a.csv", b"id\n1,2\n")
    (bad,) = list_arrived(store, FileFormat.CSV).files
    quarantine(store, bad, reason="Malformed", now_ms=7)
    store.put("a.csv", b"id\n12\n")
    os.utime(tmp_path / "a.csv", ns=(1, 1_000_000_000))
    assert paths(list_arrived(store, FileFormat.CSV)) == ["a.csv"]


def test_rows_set_aside_are_counted_by_name_and_keep_no_file_out(store: ObjectStore) -> None:
    store.put("in/a.csv", b"id\n1,2\n")
    before = list_arrived(store, FileFormat.CSV)
    (file,) = before.files
    rows = [{"row": 1, "line": 2, "column": None, "reason": "why", "record": "1,ü"}]
    path = quarantine_rows(store, file, rows * 3, before)
    assert path == f"_quarantine/in/a.csv.{file.identity}.3.rows.jsonl"
    landing = list_arrived(store, FileFormat.CSV)
    assert (paths(landing), landing.set_aside.rows) == (["in/a.csv"], 3)
    assert landing.set_aside.words == "3 rows of 1 file set aside in _quarantine/"
    (again,) = landing.rows_set_aside
    assert again.identity == file.identity
    # A run that died before its commit left another number of rows.
    quarantine_rows(store, file, rows, landing)
    landing = list_arrived(store, FileFormat.CSV)
    assert landing.set_aside.rows == 1
    line = store.get(landing.rows_set_aside[0].path).decode()
    assert json.loads(line) == {"file": "in/a.csv", **rows[0]}
    quarantine(store, file, reason="Malformed", now_ms=7)
    landing = list_arrived(store, FileFormat.CSV)
    assert landing.set_aside.words == ("1 file and 1 row of 1 other file set aside in _quarantine/")
    release_rows(store, file, landing)
    assert list_arrived(store, FileFormat.CSV).set_aside.rows == 0


def test_what_others_put_into_the_quarantine_is_no_row(store: ObjectStore) -> None:
    store.put("_quarantine/notes.rows.jsonl", b"{}")
    store.put("_quarantine/a.b.x.rows.jsonl", b"{}")
    assert list_arrived(store, FileFormat.CSV).rows_set_aside == ()


def test_a_look_from_a_path_shows_what_comes_after_it(store: ObjectStore) -> None:
    for name in ("a/1.csv", "a/2.csv", "a/3.csv", "notes.txt"):
        store.put(name, b"x")
    landing = list_arrived_after(store, FileFormat.CSV, "a/1.csv", lambda _: False)
    assert (paths(landing), landing.after, landing.is_whole) == (
        ["a/2.csv", "a/3.csv"],
        "a/1.csv",
        False,
    )
    whole = list_arrived_after(store, FileFormat.CSV, "", lambda _: False)
    assert whole == list_arrived(store, FileFormat.CSV)


@pytest.mark.parametrize("folder", ["2026", "may"], ids=["before the quarantine", "behind it"])
def test_a_file_that_is_set_aside_stays_so_in_a_look_from_a_path(
    store: ObjectStore, folder: str
) -> None:
    for number in range(4):
        store.put(f"{folder}/{number}.csv", b"x")
    (bad,) = (file for file in list_arrived(store, FileFormat.CSV).files if "2.csv" in file.path)
    quarantine(store, bad, reason="bad", now_ms=1)
    looked = list_arrived_after(
        store, FileFormat.CSV, f"{folder}/0.csv", lambda file: "3.csv" in file.path
    )
    assert paths(looked) == [f"{folder}/1.csv", f"{folder}/3.csv"]
    assert looked.quarantined == (bad,)
