"""Switching the metadata table off, completely, repeatably and in an order that survives dying."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import load_table_config
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.fixtures import fixture_table

PARTITIONS = "hoodie.table.metadata.partitions"
INFLIGHT = "hoodie.table.metadata.partitions.inflight"
FILES = ".hoodie/metadata/files/files-0000-0_0-1-2_20250101000000000.hfile"


def opened(folder: Path, plan: FaultPlan | None = None) -> HoodieTable:
    store = FaultyStore(LocalStore(str(folder)), plan)
    location = StoreLocation.of(folder)
    return open_table(location, store=store)


def make_table(folder: Path, *, partitions: str = "", inflight: str = "", files: bool) -> None:
    store = StoreLocation.of(folder).open()
    create_table(store, TableDefinition("orders", ("id",)), SystemClock())
    opened(folder).properties.update({PARTITIONS: partitions, INFLIGHT: inflight})
    if files:
        store.put(FILES, b"HFILE")
        store.put(".hoodie/metadata/.hoodie/hoodie.properties", b"hoodie.table.version=6\n")


def is_off(folder: Path) -> bool:
    properties = load_table_config(LocalStore(str(folder))).properties
    return not properties[PARTITIONS] and not properties[INFLIGHT]


@pytest.mark.parametrize(
    ("partitions", "inflight", "files", "had_to"),
    [
        ("files,column_stats", "", True, True),
        ("", "files", True, True),
        ("files", "", False, True),
        ("", "", True, True),
        ("", "", False, False),
    ],
)
def test_afterwards_nothing_of_it_is_in_use(
    tmp_path: Path, partitions: str, inflight: str, files: bool, had_to: bool
) -> None:
    make_table(tmp_path, partitions=partitions, inflight=inflight, files=files)
    table = opened(tmp_path)
    assert disable_metadata_table(table) is had_to
    assert is_off(tmp_path)
    assert table.config.metadata_partitions == ()
    assert not (tmp_path / ".hoodie/metadata").exists()
    assert disable_metadata_table(table) is False


def test_it_is_noticed_when_switched_on_after_the_table_was_opened(tmp_path: Path) -> None:
    make_table(tmp_path, files=False)
    table = opened(tmp_path)
    opened(tmp_path).properties.update({PARTITIONS: "files"})
    assert disable_metadata_table(table) is True
    assert is_off(tmp_path)


def test_a_table_without_the_properties_is_left_alone(tmp_path: Path) -> None:
    make_table(tmp_path, files=False)
    opened(tmp_path).properties.update({PARTITIONS: None, INFLIGHT: None})
    before = (tmp_path / ".hoodie/hoodie.properties").read_bytes()
    assert disable_metadata_table(opened(tmp_path)) is False
    assert (tmp_path / ".hoodie/hoodie.properties").read_bytes() == before


def test_a_crash_at_any_step_is_finished_by_the_next_call(tmp_path: Path) -> None:
    make_table(tmp_path / "counted", partitions="files", files=True)
    counting = FaultyStore(LocalStore(str(tmp_path / "counted")))
    disable_metadata_table(open_table(StoreLocation.of(tmp_path), store=counting))
    writes = range(1, len(counting.writes) + 1)
    plans = [FaultPlan(crash_before_write=number) for number in writes]
    plans += [FaultPlan(crash_after_write=number) for number in writes]
    for number, plan in enumerate(plans):
        folder = tmp_path / str(number)
        make_table(folder, partitions="files", files=True)
        with pytest.raises(SimulatedCrash):
            disable_metadata_table(opened(folder, plan))
        # A property in use without its files would fail every Hudi write.
        assert is_off(folder) or (folder / FILES).exists()
        disable_metadata_table(opened(folder))
        assert is_off(folder)
        assert not (folder / ".hoodie/metadata").exists()


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    def copy(path: str) -> Path:
        return Path(shutil.copytree(fixture_table(path), tmp_path / "table"))

    return copy


@pytest.mark.fixtures
def test_on_a_table_of_hudis_only_that_changes(copied: Callable[[str], Path]) -> None:
    folder = copied("hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor")
    sidecar = folder / ".hoodie/.hoodie.properties.crc"
    sidecar.write_bytes(b"crc\0")
    before = dict(load_table_config(LocalStore(str(folder))).properties)
    assert before[PARTITIONS] == "files"
    assert disable_metadata_table(opened(folder)) is True
    after = load_table_config(LocalStore(str(folder))).properties
    assert after == before | {PARTITIONS: "", INFLIGHT: ""}
    assert not sidecar.exists()
    assert not (folder / ".hoodie/metadata").exists()
