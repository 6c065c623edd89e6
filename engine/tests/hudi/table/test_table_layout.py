"""Which layout a table has, and what the layouts say."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.hudi.table.file_group import BaseFile, LogFile
from tideline.hudi.table.layout.known_layouts import layout_of, layout_of_new
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import LsmHistory

T = InstantTime("20250922140627028")


def properties(version: str, layout: str, **more: str) -> dict[str, str]:
    named = {key.replace("__", "."): value for key, value in more.items()}
    return {"hoodie.table.version": version, "hoodie.timeline.layout.version": layout, **named}


def test_version_6_lies_as_hudi_0_14_left_it() -> None:
    layout = layout_of(properties("6", "1"))
    assert (layout.timeline.version, layout.timeline.directory) == (1, ".hoodie")
    assert (layout.archive.opens, layout.archive.folder) == (ArchivedTimeline, "archived")
    assert layout.rollback is RollbackForm.COMMAND_BLOCKS
    assert layout.is_written
    assert layout_of_new(6).properties.created["hoodie.table.version"] == "6"
    given = properties("6", "1", hoodie__archivelog__folder="history")
    assert layout_of(given).archive.folder == "history"


def test_versions_8_and_9_differ_in_properties_alone() -> None:
    eight, nine = layout_of(properties("8", "2")), layout_of(properties("9", "2"))
    assert (nine.timeline.version, nine.timeline.directory) == (2, ".hoodie/timeline")
    assert (nine.archive.opens, nine.archive.folder) == (LsmHistory, "timeline/history")
    assert nine.rollback is RollbackForm.DELETES
    assert nine.is_written
    parts = ("timeline", "slices", "names", "archive", "rollback")
    assert [getattr(eight, part) for part in parts] == [getattr(nine, part) for part in parts]
    assert eight.properties != nine.properties


def test_a_log_names_its_slice_in_version_6_and_its_commit_in_later_ones() -> None:
    log = LogFile("p", "a-0", T, 1, "0-1-2", 1)
    base = BaseFile("p", "a-0", "0-1-2", T, 1)
    names = [layout_of(properties(*pair)).names for pair in (("6", "1"), ("8", "2"), ("9", "2"))]
    assert [name.slice_instant(log) for name in names] == [T, None, None]
    assert [name.slice_instant(base) for name in names] == [T, T, T]


def test_the_folders_of_a_timeline_are_those_that_properties_name() -> None:
    given = properties("9", "2", hoodie__timeline__path="tl", hoodie__timeline__history__path="old")
    layout = layout_of(given)
    assert (layout.timeline.directory, layout.archive.folder) == (".hoodie/tl", "tl/old")
    for path in ("../elsewhere", "a/../../b"):
        with pytest.raises(UnsupportedTableError, match=r"outside of \.hoodie"):
            layout_of(given | {"hoodie.timeline.path": path})


@pytest.mark.parametrize(
    ("version", "layout", "says"),
    [
        ("", "1", "version 0 is too old"),
        ("2", "1", "too old: Tideline reads versions 3, 4, 5, 6, 8, 9 and writes 6, 8, 9"),
        ("7", "1", "version 7 is not supported: Tideline reads"),
        ("10", "2", "version 10 is not supported: Tideline reads"),
        ("6", "2", "version 6 is not supported with this timeline layout"),
        ("9", "1", "version 9 is not supported with this timeline layout"),
    ],
)
def test_others_are_refused_by_name(version: str, layout: str, says: str) -> None:
    with pytest.raises(UnsupportedTableError, match=says):
        layout_of(properties(version, layout))


def test_a_version_that_is_no_number_is_corrupt() -> None:
    with pytest.raises(CorruptTableError, match=r"hoodie\.table\.version: not a number"):
        layout_of(properties("six", "1"))


@pytest.mark.parametrize("version", [3, 5, 7, 10])
def test_only_tables_of_versions_that_are_written_are_created(version: int) -> None:
    with pytest.raises(ConfigError, match="no table of this version can be created"):
        layout_of_new(version)


def test_a_table_that_is_only_read_says_so_before_it_is_changed() -> None:
    more = {"hoodie.table.type": "MERGE_ON_READ"}
    TableConfig(properties("6", "1") | more).check_writable()
    TableConfig(properties("9", "2") | more).check_writable()
    older = TableConfig(properties("5", "1") | more)
    older.check_readable()
    with pytest.raises(UnsupportedTableError, match="version 5 is read, but not changed"):
        older.check_writable()


def test_version_9_keeps_settings_of_merging_under_a_name_of_its_own() -> None:
    name = "hoodie.payload.delete.field"
    kept = {f"hoodie.record.merge.property.{name}": "Op"}
    assert TableConfig(properties("9", "2") | kept).merge_property(name) == "Op"
    assert TableConfig(properties("8", "2") | kept).merge_property(name) is None
    assert TableConfig(properties("6", "1") | {name: "gone"}).merge_property(name) == "gone"


def test_version_9_says_in_addition_how_rows_fill_each_other_up() -> None:
    given = properties("9", "2", hoodie__record__merge__mode="COMMIT_TIME_ORDERING")
    assert TableConfig(given).merge_mode is MergeMode.COMMIT_TIME_ORDERING
    filled = TableConfig(given | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    assert filled.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert filled.partial_updates == PartialUpdates(PartialUpdateMode.IGNORE_DEFAULTS)
    unknown = TableConfig(given | {"hoodie.table.partial.update.mode": "LATER"})
    with pytest.raises(UnsupportedTableError, match="unknown way"):
        _ = unknown.partial_updates
    eight = properties("8", "2") | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    assert TableConfig(eight).partial_updates is None
