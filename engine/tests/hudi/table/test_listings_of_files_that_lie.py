"""A store that answers listings of files with something else: no file is missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tideline.errors import StorageUnavailableError
from tideline.hudi.table.table_files import TableFiles
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import Listing, ObjectInfo
from tideline.testing.small_table import SmallTable, batch


class Lying:
    """Passes calls on; listings are empty."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        del prefix
        return iter(())

    def list_directory(self, prefix: str = "") -> Listing:
        del prefix
        return Listing((), ())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def made() -> Iterator[SmallTable]:
    name = uuid4().hex
    yield SmallTable.create(StoreLocation.of(f"memory://{name}/t"), table_version=9)
    MemoryStore.forget(name)


def lying(made: SmallTable, monkeypatch: pytest.MonkeyPatch) -> TableFiles:
    files = made.lake().hoodie_table.files
    monkeypatch.setattr(files, "_store", Lying(files._store))
    return files


def test_an_empty_listing_of_a_partition_that_has_files_is_refused(
    made: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write("upsert", batch(range(4), 1))
    assert all(made.lake().hoodie_table.files.listing(["p0", "p1"]).values())
    with pytest.raises(StorageUnavailableError, match="is empty of a folder that has files") as it:
        lying(made, monkeypatch).listing(["p0"])
    assert it.value.path == "p0"


@pytest.mark.parametrize("has_rows", [True, False])
def test_an_empty_listing_of_a_table_is_refused(
    made: SmallTable, monkeypatch: pytest.MonkeyPatch, has_rows: bool
) -> None:
    if has_rows:
        made.write("upsert", batch(range(4), 1))
    assert bool(made.lake().hoodie_table.files.partitions()) == has_rows
    files = lying(made, monkeypatch)
    for look in (files.partitions, files.objects, lambda: files.listing([""])):
        with pytest.raises(StorageUnavailableError, match="is empty of a folder that has files"):
            look()


def test_a_partition_that_is_not_there_yet_is_empty(
    made: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write("upsert", batch(range(4), 1))
    assert made.lake().hoodie_table.files.listing(["new"]) == {"new": ()}
    assert lying(made, monkeypatch).listing(["new"]) == {"new": ()}
