"""Which snapshots, branches and tags expire, by Iceberg's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions, UsedMetadata, plan_expire
from tideline.testing.iceberg_model import IcebergModel

DAY_MS = 24 * 60 * 60 * 1000
NOW_MS = 100 * DAY_MS


def table(
    days: dict[int, float],
    parents: dict[int, int],
    refs: dict[str, SnapshotRef],
    properties: dict[str, str] | None = None,
) -> TableMetadata:
    """Snapshots by id and day; a parent is the next lower id unless `parents` says otherwise."""
    snapshots = tuple(
        Snapshot(number, parents.get(number, number - 1), number, int(day * DAY_MS),
                 "append", {}, f"list-{number}", schema_id=0)
        for number, day in days.items()
    )  # fmt: skip
    return replace(
        IcebergModel.create().metadata(),
        snapshots=snapshots,
        refs=refs,
        current_snapshot_id=refs[MAIN].snapshot_id,
        properties=properties or {},
    )


def linear(properties: dict[str, str] | None = None, /, **refs: SnapshotRef) -> TableMetadata:
    """Snapshots 1 to 5 of 20, 15, 10, 3 and 1 days ago."""
    days = dict(zip(range(1, 6), (80.0, 85.0, 90.0, 97.0, 99.0), strict=True))
    return table(days, {}, {MAIN: SnapshotRef(5), **refs}, properties)


def kept(metadata: TableMetadata, **options: Any) -> list[int]:
    plan = plan_expire(metadata, ExpireOptions(**options), now_ms=NOW_MS)
    ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    assert sorted((*plan.kept_ids, *plan.snapshot_ids)) == sorted(ids)
    return list(plan.kept_ids)


def test_snapshots_of_the_last_five_days_stay_by_default() -> None:
    assert kept(linear()) == [4, 5]


def test_the_tables_own_settings_replace_the_defaults_and_options_replace_those() -> None:
    properties = {
        "history.expire.max-snapshot-age-ms": str(11 * DAY_MS),
        "history.expire.min-snapshots-to-keep": "4",
    }
    assert kept(linear(properties)) == [2, 3, 4, 5]
    assert kept(linear(properties), retain_last=1) == [3, 4, 5]
    assert kept(linear(properties), older_than_ms=NOW_MS, retain_last=2) == [4, 5]


def test_the_age_is_the_last_moment_to_stay() -> None:
    assert kept(linear(), older_than_ms=90 * DAY_MS) == [3, 4, 5]
    assert kept(linear(), older_than_ms=90 * DAY_MS + 1) == [4, 5]


def test_a_table_keeps_its_current_snapshot_regardless_of_its_age() -> None:
    assert kept(linear(), older_than_ms=NOW_MS * 2) == [5]


def test_the_first_old_ancestor_ends_what_a_branch_keeps() -> None:
    """A younger one behind it, as a clock that went back leaves it, goes as well."""
    metadata = table({1: 99, 2: 50, 3: 99}, {}, {MAIN: SnapshotRef(3)})
    assert kept(metadata) == [3]


def test_a_tag_keeps_its_snapshot_alone() -> None:
    assert kept(linear(release=SnapshotRef(2, "tag"))) == [2, 4, 5]


def test_a_branch_keeps_ancestors_by_its_own_settings() -> None:
    branch = SnapshotRef(3, min_snapshots_to_keep=2, max_snapshot_age_ms=0)
    assert kept(linear(audit=branch)) == [2, 3, 4, 5]
    branch = SnapshotRef(3, min_snapshots_to_keep=1, max_snapshot_age_ms=16 * DAY_MS)
    assert kept(linear(audit=branch)) == [2, 3, 4, 5]
    assert kept(linear(audit=replace(branch, max_snapshot_age_ms=21 * DAY_MS))) == [1, 2, 3, 4, 5]


def test_old_branches_and_tags_go_and_main_never() -> None:
    refs = {
        "old": SnapshotRef(1, "tag", max_ref_age_ms=10 * DAY_MS),
        "older": SnapshotRef(2, max_ref_age_ms=15 * DAY_MS - 1),
        "lasting": SnapshotRef(3, "tag"),
    }
    metadata = linear(**refs)
    plan = plan_expire(metadata, ExpireOptions(), now_ms=NOW_MS)
    assert plan.refs == ("old", "older")
    assert plan.kept_ids == (3, 4, 5)
    setting = {"history.expire.max-ref-age-ms": "1"}
    metadata = replace(metadata, properties=setting)
    plan = plan_expire(metadata, ExpireOptions(), now_ms=NOW_MS)
    assert plan.refs == ("old", "older", "lasting")
    assert MAIN not in plan.refs


def test_a_snapshot_that_no_name_leads_to_is_expired_by_age() -> None:
    metadata = table({1: 98, 2: 99, 3: 98, 4: 90}, {3: 1, 4: 1}, {MAIN: SnapshotRef(2)})
    assert kept(metadata) == [1, 2, 3]


def test_named_snapshots_are_expired_too() -> None:
    assert kept(linear(), snapshot_ids=(4,)) == [5]
    assert kept(linear(), snapshot_ids=(4,), older_than_ms=0) == [1, 2, 3, 5]
    assert kept(linear(), snapshot_ids=(77,)) == [4, 5]


@pytest.mark.parametrize("name", [MAIN, "release"])
def test_a_named_snapshot_that_a_name_leads_to_is_refused(name: str) -> None:
    metadata = linear(release=SnapshotRef(2, "tag"))
    snapshot_id = metadata.refs[name].snapshot_id
    with pytest.raises(ConfigError, match=f"{name} leads to.*value={snapshot_id}"):
        kept(metadata, snapshot_ids=(snapshot_id,))


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="retain_last"):
        ExpireOptions(retain_last=0)
    with pytest.raises(ConfigError, match=r"min-snapshots-to-keep.*value=many"):
        kept(linear({"history.expire.min-snapshots-to-keep": "many"}))


def test_specs_and_schemas_that_nothing_uses_go_when_asked() -> None:
    base = linear()
    old = Schema(7, base.schemas[0].fields[:1])
    metadata = replace(
        base,
        schemas=(*base.schemas, old, Schema(8, old.fields)),
        partition_specs=(*base.partition_specs, PartitionSpec(2)),
        snapshots=(replace(base.snapshots[0], schema_id=8), *base.snapshots[1:]),
    )
    options = ExpireOptions(clean_expired_metadata=True)
    used = UsedMetadata(frozenset({0, 1}), has_deletes=False)
    plan = plan_expire(metadata, options, now_ms=NOW_MS, used=used)
    assert (plan.spec_ids, plan.schema_ids) == ((2,), (7, 8))
    keeping = replace(options, older_than_ms=0)
    plan = plan_expire(metadata, keeping, now_ms=NOW_MS, used=used)
    assert (plan.spec_ids, plan.schema_ids) == ((2,), (7,))
    plan = plan_expire(metadata, ExpireOptions(), now_ms=NOW_MS, used=used)
    assert (plan.spec_ids, plan.schema_ids) == ((), ())


def test_a_dropped_column_is_remembered_as_long_as_deletes_may_name_it() -> None:
    base = linear()
    metadata = replace(
        base,
        current_schema_id=1,
        schemas=(*base.schemas, Schema(1, base.schemas[0].fields[:1])),
        partition_specs=(PartitionSpec(1),),
        default_spec_id=1,
        snapshots=tuple(replace(snapshot, schema_id=1) for snapshot in base.snapshots),
    )
    options = ExpireOptions(clean_expired_metadata=True)
    for has_deletes, gone in ((True, ()), (False, (0,))):
        used = UsedMetadata(frozenset({1}), has_deletes)
        assert plan_expire(metadata, options, now_ms=NOW_MS, used=used).schema_ids == gone


def test_what_was_the_newest_until_lately_stays_for_those_who_began_from_it() -> None:
    """Snapshot 4 was the newest until a day ago, snapshot 3 until three days ago."""
    given = {"older_than_ms": NOW_MS, "retain_last": 1}
    assert kept(linear(), **given) == [5]
    assert kept(linear(), **given, superseded_before_ms=NOW_MS - 2 * DAY_MS) == [4, 5]
    assert kept(linear(), **given, superseded_before_ms=NOW_MS - 4 * DAY_MS) == [3, 4, 5]
    assert kept(linear(), **given, superseded_before_ms=NOW_MS) == [5]
