"""Looking at Iceberg tables: what is found, what is due, and what is not read again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.snapshot_producer import commit_snapshot, new_snapshot_id
from tideline.iceberg.table.file_system_table import HINT_PATH
from tideline.ingest.location import Location
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.iceberg_audit import empty_and_create_anew
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import ModelFiles
from tideline.testing.iceberg_row_delta import RowDelta
from tideline_operator.decide.due_services import needs_of
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.observe.iceberg_observation import (
    COUNTING_FREE_MS,
    IcebergMemory,
    observe_iceberg,
)
from tideline_operator.observe.iceberg_source import FolderSource
from tideline_operator.observe.observation import Observer
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.table_states import EMPTY, resolved_iceberg

LOOK_AGAIN_CALLS_MAX = 8


@dataclass(slots=True)
class Onlooker:
    """An observer of one table, and the store it sees that table through."""

    model: IcebergModel
    spec: dict[str, Any] = field(default_factory=dict)
    store: FaultyStore = field(init=False)
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        self.store = FaultyStore(self.model.location.open())
        self.observer = Observer(self.model.clock, self._open)

    @property
    def table(self) -> ResolvedTable:
        return resolved_iceberg(self.model.location.uri, **self.spec)

    def look(self) -> Observed:
        return self.observer.observe(self.table, EMPTY)

    def seen(self) -> ObservedIceberg:
        observed = self.look()
        assert observed.problem is None, observed.problem
        assert observed.iceberg is not None
        return observed.iceberg

    def needs(self) -> dict[str, ServiceNeed]:
        now_ms = self.model.clock.now_ms()
        found = needs_of(self.table.spec, EMPTY, self.look(), now_ms)
        return {need.name: need for need in found}

    def _open(self, _: ResolvedTable, place: Location) -> ObjectStore:
        assert place.uri == self.model.location.uri
        return self.store


def onlooker(appends: int = 0, **spec: Any) -> Onlooker:
    model = IcebergModel.create()
    for number in range(appends):
        model.append(range(number * 4, number * 4 + 4))
    return Onlooker(model, spec)


def test_where_there_is_no_table_none_is_seen_and_one_that_comes_is() -> None:
    observer = onlooker()
    store = observer.model.location.open()
    hint, metadata = store.get(HINT_PATH), store.get("metadata/v1.metadata.json")
    store.delete_many([HINT_PATH, "metadata/v1.metadata.json"])
    assert observer.look() == Observed()
    store.put("metadata/v1.metadata.json", metadata)
    store.put(HINT_PATH, hint)
    assert observer.seen().files is not None


def test_the_files_of_the_newest_snapshot_are_counted() -> None:
    observer = onlooker(appends=3)
    observer.model.delete_by_position([1])
    files = observer.seen().files
    assert files is not None
    assert (files.files, files.small_files, files.files_with_deletes) == (6, 6, 1)
    assert (files.delete_files, files.manifests) == (1, 4)
    assert files.size_bytes > 0


def test_a_rewrite_is_due_once_a_partition_has_enough_small_files() -> None:
    observer = onlooker(appends=4)
    need = observer.needs()["rewriteDataFiles"]
    assert not need.is_due
    assert need.reason == "nothing to gain: of 8 data files 100 % are small, 0 % have deletes"
    observer.model.append(range(100, 104))
    need = observer.needs()["rewriteDataFiles"]
    assert need.is_due
    assert need.reason.startswith("10 data files (")
    assert need.reason.endswith(") would become 2: enough files of the wrong size")


def test_partitions_that_others_change_are_left_to_them_until_they_are_quiet() -> None:
    observer = onlooker(appends=5, services={"quietFor": "10m"})
    observer.model.delete_by_position([1])
    need = observer.needs()["rewriteDataFiles"]
    assert need.is_due
    assert need.reason.startswith("5 data files (")
    observer.model.delete_by_position([2])
    need = observer.needs()["rewriteDataFiles"]
    assert not need.is_due
    assert need.reason.endswith("other writers changed lately are left to them (quietFor)")
    files = observer.seen().files
    assert files is not None and files.quiet_at_ms is not None
    wait_ms = files.quiet_at_ms - observer.model.clock.now_ms()
    assert 0 < wait_ms <= 600_000
    observer.model.clock.sleep(601.0)
    need = observer.needs()["rewriteDataFiles"]
    assert need.is_due
    assert need.reason.startswith("10 data files (")
    assert observer.needs()["rewriteDataFiles"] == need


def test_fields_of_the_spec_decide_what_a_rewrite_takes() -> None:
    few = {"services": {"rewriteDataFiles": {"minInputFiles": 2}}}
    assert onlooker(appends=2, **few).needs()["rewriteDataFiles"].is_due
    odd = {"services": {"rewriteDataFiles": {"minInputFiles": 2, "filter": "parity = 'odd'"}}}
    assert "4 data files" not in onlooker(appends=2, **odd).needs()["rewriteDataFiles"].reason
    size = {"services": {"rewriteDataFiles": {"targetFileSize": "8"}}}
    assert "0 % are small" in onlooker(appends=2, **size).needs()["rewriteDataFiles"].reason
    bad = {"services": {"rewriteDataFiles": {"options": {"min-input-file": "2"}}}}
    need = onlooker(appends=2, **bad).needs()["rewriteDataFiles"]
    assert need.problem is not None
    assert "did you mean min-input-files?" in need.reason


def test_files_of_other_formats_are_left_by_name_and_others_are_rewritten() -> None:
    observer = onlooker(appends=5)
    operations = observer.model.operations()
    written = ModelFiles.of(operations.io, observer.model.metadata()).write_rows([99], 0)
    writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
    change = RowDelta("append", [replace(file, file_format="AVRO") for file in written])
    change.bind(operations.io, writer)
    commit_snapshot(operations, change, writer, clock=observer.model.clock)
    need = observer.needs()["rewriteDataFiles"]
    left = f"1 file stays: not in Parquet, and only Parquet is rewritten: {written[0].file_path}"
    assert need.is_due
    assert need.reason.endswith(f"; {left}")
    observer.spec = {"services": {"rewriteDataFiles": {"minInputFiles": 9}}}
    need = observer.needs()["rewriteDataFiles"]
    assert (need.is_due, need.problem) == (False, None)
    assert need.reason.startswith("nothing to gain")
    assert need.reason.endswith(f"; {left}")


def test_a_few_position_deletes_are_left_and_wrong_options_named() -> None:
    observer = onlooker(appends=3)
    assert observer.needs()["rewritePositionDeletes"].reason == "there are no deletes"
    observer.model.delete_by_position([1])
    need = observer.needs()["rewritePositionDeletes"]
    assert (need.is_due, need.reason) == (False, "nothing to gain: 1 delete file")
    observer.spec = {"services": {"rewritePositionDeletes": {"options": {"bogus": "1"}}}}
    assert observer.needs()["rewritePositionDeletes"].problem is not None


def test_manifests_are_due_when_they_are_many() -> None:
    observer = onlooker(appends=4)
    need = observer.needs()["rewriteManifests"]
    assert need.reason == "4 of 4 manifests small or overlapping; a rewrite takes at least 20"
    observer.spec = {"services": {"rewriteManifests": {"minManifests": 4}}}
    need = observer.needs()["rewriteManifests"]
    assert need.is_due
    assert need.reason.startswith("4 manifests (")
    assert ") would become 1" in need.reason


def test_a_table_that_did_not_change_is_not_read_again() -> None:
    observer = onlooker(appends=8)
    first = observer.seen()
    before = observer.store.calls
    assert observer.seen() == first
    assert observer.store.calls - before <= LOOK_AGAIN_CALLS_MAX
    observer.model.append([1])
    before = observer.store.calls
    assert observer.seen().files != first.files
    assert observer.store.calls - before > LOOK_AGAIN_CALLS_MAX


def test_another_spec_is_counted_again() -> None:
    observer = onlooker(appends=2)
    assert not observer.needs()["rewriteDataFiles"].is_due
    observer.spec = {"services": {"rewriteDataFiles": {"minInputFiles": 2}}}
    assert observer.needs()["rewriteDataFiles"].is_due


def test_counting_that_takes_long_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = onlooker(appends=6)
    clock = observer.model.clock
    inner = observer.store.get

    def slow(path: str) -> bytes:
        clock.sleep(2 * COUNTING_FREE_MS / 1000)
        return inner(path)

    monkeypatch.setattr(observer.store, "get", slow)
    assert observer.seen().files is not None
    observer.model.append([1])
    later = observer.seen()
    assert later.files is None
    assert later.count_at_ms is not None
    need = observer.needs()["rewriteDataFiles"]
    assert (need.is_due, need.reason) == (False, "the newest snapshot is not counted yet")
    clock.sleep((later.count_at_ms - clock.now_ms()) / 1000)
    assert observer.seen().files is not None


def test_partitions_that_become_quiet_do_not_make_counting_more_frequent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observer = onlooker(appends=5, services={"quietFor": "30s"})
    observer.model.delete_by_position([2])
    clock, inner, reads = observer.model.clock, observer.store.get, []

    def slow(path: str) -> bytes:
        reads.append(path)
        clock.sleep(2 * COUNTING_FREE_MS / 1000)
        return inner(path)

    monkeypatch.setattr(observer.store, "get", slow)
    assert observer.seen().files is not None
    clock.sleep(31.0)
    reads.clear()
    known = observer.seen().files
    assert known is not None and known.quiet_at_ms is not None
    assert known.quiet_at_ms > clock.now_ms()
    assert not [path for path in reads if path.endswith(".avro")]
    clock.sleep((known.quiet_at_ms - clock.now_ms()) / 1000 + 1)
    again = observer.seen().files
    assert again is not None and again.quiet_at_ms is None
    assert "rewrite_data_files" in again.outlooks


def test_snapshots_expire_when_their_age_has_come() -> None:
    observer = onlooker(appends=3)
    assert observer.needs()["expireSnapshots"].reason == "nothing to expire: 3 snapshots"
    observer.model.clock.sleep(6 * 86_400)
    need = observer.needs()["expireSnapshots"]
    assert (need.is_due, need.reason) == (True, "2 of 3 snapshots are past their age")
    observer.spec = {"services": {"expireSnapshots": {"retainLast": 3}}}
    assert not observer.needs()["expireSnapshots"].is_due
    observer.spec = {"services": {"expireSnapshots": {"olderThan": "30d"}}}
    assert not observer.needs()["expireSnapshots"].is_due


def test_a_table_that_shares_its_files_keeps_them() -> None:
    observer = Onlooker(IcebergModel.create(properties={"gc.enabled": "false"}))
    observer.model.append([1])
    observer.model.clock.sleep(9 * 86_400)
    for name in ("expireSnapshots", "removeOrphanFiles"):
        need = observer.needs()[name]
        assert (need.is_due, need.problem) == (False, None)
        assert "gc.enabled is false" in need.reason


@pytest.mark.parametrize("call", [1, 4, 8, 12])
def test_an_unreachable_store_is_a_transient_problem(call: int) -> None:
    observer = onlooker(appends=6)
    observer.store.plan = FaultPlan(unavailable_calls=frozenset({call}))
    problem = observer.look().problem
    assert problem is not None
    assert problem.is_transient
    observer.store.plan = FaultPlan()
    assert observer.needs()["rewriteDataFiles"].is_due


def test_a_missing_manifest_is_named() -> None:
    observer = onlooker(appends=2)
    (path, *_) = [
        info.path for info in observer.model.location.open().list("metadata") if "-m" in info.path
    ]
    observer.model.location.open().delete(path)
    problem = observer.look().problem
    assert problem is not None
    assert (problem.reason, problem.exit_code) == ("CorruptTable", 1)
    assert path in problem.message


@pytest.mark.parametrize("is_local", [True, False])
def test_a_table_that_was_made_anew_in_the_same_place_is_another_one(
    is_local: bool, tmp_path: Path
) -> None:
    observer = onlooker(appends=3)
    if is_local:
        observer = Onlooker(IcebergModel.create_in(str(tmp_path), 3))
    first, again = observer.seen(), observer.seen()
    assert again.metadata is first.metadata
    empty_and_create_anew(observer.model)
    for number in range(3):
        observer.model.append([2 * number])
    second = observer.seen()
    assert second.metadata_location.endswith("/v4.metadata.json")
    assert second.metadata.table_uuid == observer.model.metadata().table_uuid
    assert second.metadata.table_uuid != first.metadata.table_uuid
    assert first.files is not None and second.files is not None
    assert (first.files.files, second.files.files) == (6, 3)
    assert observer.seen().metadata is second.metadata


def test_counting_that_the_first_table_put_off_is_done_for_the_second() -> None:
    observer = onlooker(appends=3)
    source = FolderSource(observer.model.operations(observer.store))
    memory = IcebergMemory()
    first = observe_iceberg(source, observer.table.spec, memory, observer.model.clock)
    memory.count_again_ms = observer.model.clock.now_ms() + 1_000_000
    empty_and_create_anew(observer.model)
    for number in range(3):
        observer.model.append([2 * number])
    source = FolderSource(observer.model.operations(observer.store))
    second = observe_iceberg(source, observer.table.spec, memory, observer.model.clock)
    assert second.metadata_location == first.metadata_location
    assert second.files is not None and second.files.files == 3
