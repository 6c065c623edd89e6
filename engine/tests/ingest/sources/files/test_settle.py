"""Files that were taken in leave the landing prefix: after the commit, whenever a process dies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.hudi_table import HudiIngestTable
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.locate import locate
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files import settle
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.files.position import FilesPosition
from tideline.ingest.sources.files.reader import FilesSource
from tideline.ingest.sources.source import Limits, Nothing
from tideline.storage.copying import copy_object
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.file_ingests import ingest_of_files

NOW_MS = 4_000_000_000_000
FILES = ("1.parquet", "2.parquet", "day=3/3.parquet")


def no_spark(_: object) -> Any:
    raise AssertionError("parquet files need no Spark")


@dataclass
class Feed:
    """A landing folder, a folder for moved files and a table."""

    folder: Path
    after_ingest: AfterIngest
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> TableTarget:
        return TableTarget("feed", Location(f"file://{self.folder}/table"), ("id",))

    @property
    def landing(self) -> Location:
        return Location(f"file://{self.folder}/landing")

    @property
    def moved_to(self) -> Location | None:
        is_moved = self.after_ingest is AfterIngest.MOVE
        return Location(f"file://{self.folder}/moved/here") if is_moved else None

    def land(self, path: str, first_id: int, at_s: int) -> None:
        file = self.folder / "landing" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [first_id, first_id + 1], "v": [path, path]}), file)
        os.utime(file, (at_s, at_s))

    def land_all(self) -> None:
        for number, path in enumerate(FILES):
            self.land(path, 10 * number, 1_000 + number)

    def checkpoint(self) -> Checkpoint | None:
        return current_checkpoints(open_table(self.target), "landing").get("landing")

    def run(self, files_max: int = 100) -> OperationResult:
        checkpoint, store = self.checkpoint(), locate(self.landing).open()
        landing = list_arrived(store, FileFormat.PARQUET)
        position = None if checkpoint is None else checkpoint.position
        planned = landing.at_once().plan(position, Limits(files_max, NOW_MS))
        work: dict[str, Any] = {
            "name": "landing",
            "landing": self.landing,
            "file_format": FileFormat.PARQUET,
            "files": () if isinstance(planned, Nothing) else planned.files,
            "generation": checkpoint.generation if checkpoint else 0,
            "write_operation": "insert",
            "moved_to": self.moved_to,
            "after_ingest": self.after_ingest,
        }
        ingest = ingest_of_files(**(work | self.more))
        operation = Operation("feed-ingest-1", self.target, ingest)
        # As a Job gets it.
        read = Operation.from_json_object(operation.to_json_object())
        return execute_operation(read, session_factory=no_spark)

    def landed(self) -> list[str]:
        return self._files("landing")

    def moved(self) -> list[str]:
        return self._files("moved/here")

    def ids(self) -> list[int]:
        table = open_table(self.target)
        assert table is not None
        return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())

    def _files(self, folder: str) -> list[str]:
        root = self.folder / folder
        found = (file for file in root.rglob("*") if file.is_file())
        return sorted(str(file.relative_to(root)) for file in found)


@pytest.fixture(params=[AfterIngest.MOVE, AfterIngest.REMOVE], ids=str)
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Feed:
    return Feed(tmp_path, request.param)


@pytest.fixture
def removing(tmp_path: Path) -> Feed:
    return Feed(tmp_path, AfterIngest.REMOVE)


@pytest.fixture
def moving(tmp_path: Path) -> Feed:
    return Feed(tmp_path, AfterIngest.MOVE)


def test_what_was_taken_in_leaves_and_all_else_stays(feed: Feed) -> None:
    feed.land_all()
    feed.land("later.parquet", 90, 2_000)
    others = ("notes.txt", "_quarantine/x.parquet.0123456789abcdef.json", ".hidden.parquet")
    for other in others:
        (feed.folder / "landing" / other).parent.mkdir(exist_ok=True)
        (feed.folder / "landing" / other).write_text("{}")
    body = (feed.folder / "landing" / FILES[0]).read_bytes()
    result = feed.run(files_max=3)
    assert (result.outcome, result.source_files, result.files_cleared) == (Outcome.SUCCEEDED, 3, 3)
    assert feed.landed() == sorted(["later.parquet", *others])
    if feed.after_ingest is AfterIngest.MOVE:
        assert feed.moved() == sorted(FILES)
        assert (feed.folder / "moved/here" / FILES[0]).read_bytes() == body
        assert f"3 files taken in and moved to file://{feed.folder}/moved/here" in result.notes
    else:
        assert "3 files taken in and removed" in result.notes
    feed.run()
    assert feed.landed() == sorted(others)
    assert feed.ids() == [0, 1, 10, 11, 20, 21, 90, 91]


def test_without_the_policy_everything_stays(tmp_path: Path) -> None:
    feed = Feed(tmp_path, AfterIngest.KEEP)
    feed.land_all()
    result = feed.run()
    assert (result.files_cleared, feed.landed()) == (0, sorted(FILES))


def test_a_commit_that_is_not_there_clears_nothing(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.land_all()

    def die(*_: object) -> None:
        raise SimulatedCrash("in the write")

    with monkeypatch.context() as patched:
        patched.setattr(IngestBatch, "write", die)
        with pytest.raises(SimulatedCrash):
            feed.run()
    assert feed.landed() == sorted(FILES)


def test_after_a_death_behind_the_commit_the_next_operation_clears(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.land_all()

    def die(*_: object) -> None:
        raise SimulatedCrash("right behind the commit")

    with monkeypatch.context() as patched:
        patched.setattr(FilesSource, "settle", die)
        with pytest.raises(SimulatedCrash):
            feed.run()
    assert (feed.landed(), feed.ids()) == (sorted(FILES), [0, 1, 10, 11, 20, 21])
    result = feed.run()
    assert (result.outcome, result.source_files, result.files_cleared) == (Outcome.SUCCEEDED, 0, 3)
    assert result.message.startswith("3 files taken in and ")
    assert (feed.landed(), feed.ids()) == ([], [0, 1, 10, 11, 20, 21])
    assert feed.run().outcome is Outcome.NOTHING


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize(
    "planned",
    [
        lambda number: FaultPlan(crash_before_write=number),
        lambda number: FaultPlan(crash_after_write=number),
    ],
    ids=["before", "after"],
)
@pytest.mark.parametrize(
    ("after_ingest", "place"),
    [
        (AfterIngest.MOVE, "landing"),
        (AfterIngest.MOVE, "moved"),
        (AfterIngest.REMOVE, "landing"),
    ],
    ids=str,
)
def test_a_death_at_any_write_of_the_clearing_loses_no_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after_ingest: AfterIngest,
    place: str,
    planned: Callable[[int], FaultPlan],
) -> None:
    feed = Feed(tmp_path, after_ingest)
    feed.land_all()
    bodies = {path: (feed.folder / "landing" / path).read_bytes() for path in FILES}
    feed.more = {"after_ingest": AfterIngest.KEEP}
    feed.run()
    feed.more = {}
    deaths = 0
    for number in range(1, 20):
        shutil.rmtree(feed.folder / "moved", ignore_errors=True)
        for at_s, (path, body) in enumerate(bodies.items(), start=1_000):
            file = feed.folder / "landing" / path
            file.write_bytes(body)
            os.utime(file, (at_s, at_s))
        try:
            with faulty(monkeypatch, place, planned(number)):
                feed.run()
        except SimulatedCrash:
            deaths += 1
        else:
            break
        if feed.after_ingest is AfterIngest.MOVE:
            for path, body in bodies.items():
                places = (feed.folder / "landing" / path, feed.folder / "moved/here" / path)
                assert any(file.is_file() and file.read_bytes() == body for file in places), path
        feed.run()
        assert feed.landed() == []
        assert feed.moved() == (sorted(FILES) if feed.after_ingest is AfterIngest.MOVE else [])
        assert feed.ids() == [0, 1, 10, 11, 20, 21], "nothing goes in twice"
    assert deaths >= len(FILES)


@contextmanager
def faulty(patch: pytest.MonkeyPatch, place: str, plan: FaultPlan) -> Iterator[None]:
    """Within, the store at one place of the clearing has the faults of the plan."""

    class Faulty(StoreLocation):
        def open(self, connection: Any = None) -> ObjectStore:
            is_chosen = f"/{place}" in self.uri
            store = StoreLocation.open(self, connection)
            return FaultyStore(store, plan if is_chosen else FaultPlan())

    with patch.context() as patched:
        patched.setattr(settle, "locate", lambda at: Faulty(at.uri, at.options))
        yield


def floored_position(checkpoint: Checkpoint) -> FilesPosition:
    position = checkpoint.position
    assert isinstance(position, FilesPosition)
    return replace(position, floor=position.watermark, settled=3, taken=frozenset())


def test_a_file_that_may_have_arrived_late_is_never_cleared(removing: Feed) -> None:
    removing.land_all()
    removing.more = {"after_ingest": AfterIngest.KEEP}
    removing.run()
    checkpoint = removing.checkpoint()
    assert checkpoint is not None
    floored = replace(checkpoint, position=floored_position(checkpoint))
    removing.land("late.parquet", 70, 5)
    removing.more = {}
    seen: Callable[..., Any] = lambda *_: {"landing": floored}  # noqa: E731
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HudiIngestTable, "checkpoints", seen)
        removing.run()
    assert removing.landed() == sorted([*FILES, "late.parquet"])


def test_a_file_that_is_replaced_while_it_is_copied_stays(
    moving: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving.land_all()

    def replacing(*args: Any, **more: Any) -> None:
        copy_object(*args, **more)
        if args[1] == FILES[1]:
            (moving.folder / "landing" / FILES[1]).unlink()
            moving.land(FILES[1], 50, 3_000)

    with monkeypatch.context() as patched:
        patched.setattr(settle, "copy_object", replacing)
        result = moving.run()
    assert (result.files_cleared, moving.landed()) == (2, [FILES[1]])
    moving.run()
    assert (moving.landed(), moving.ids()) == ([], [0, 1, 10, 11, 20, 21, 50, 51])


def test_files_of_a_table_in_the_landing_prefix_are_not_touched(removing: Feed) -> None:
    removing.land_all()
    control = removing.folder / "landing/day=3/.hoodie/hoodie.properties"
    control.parent.mkdir(parents=True)
    control.write_text("hoodie.table.name=other\n")
    result = removing.run()
    assert (result.outcome, result.files_cleared) == (Outcome.SUCCEEDED, 2)
    assert {FILES[2], "day=3/.hoodie/hoodie.properties"} == set(removing.landed())
    assert removing.ids() == [0, 1, 10, 11]


def test_files_that_were_taken_in_before_there_was_a_table_are_not_touched(removing: Feed) -> None:
    removing.more = {"after_ingest": AfterIngest.KEEP}
    removing.land_all()
    removing.run()
    control = removing.folder / "landing/day=3/.hoodie/hoodie.properties"
    control.parent.mkdir(parents=True)
    control.write_text("hoodie.table.name=other\n")
    removing.more = {}
    removing.run()
    assert FILES[2] in removing.landed()


def test_files_of_a_table_around_the_landing_prefix_stay(feed: Feed) -> None:
    feed.land("0.parquet", 70, 5)
    feed.run()
    feed.land_all()
    metadata = feed.folder / "metadata/v1.metadata.json"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("{}")
    result = feed.run()
    assert (result.outcome, result.files_cleared) == (Outcome.SUCCEEDED, 0)
    assert "belong to the Iceberg table at" in result.notes[-1]
    assert set(FILES) <= set(feed.landed())


def test_trouble_in_clearing_is_noted_and_the_commit_stands(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.land_all()
    with faulty(monkeypatch, "landing", FaultPlan(unavailable_calls=frozenset({1}))):
        result = feed.run()
    assert (result.outcome, result.files_cleared) == (Outcome.SUCCEEDED, 0)
    assert "files that were taken in are still in the source" in result.notes[-1]
    assert (feed.landed(), feed.ids()) == (sorted(FILES), [0, 1, 10, 11, 20, 21])
    with faulty(monkeypatch, "landing", FaultPlan(unavailable_calls=frozenset({1}))):
        again = feed.run()
    assert (again.outcome, again.is_safe_to_retry) == (Outcome.FAILED, True)
    feed.run()
    assert feed.landed() == []


@pytest.fixture
def s3_feed(feed: Feed, s3_location: StoreLocation) -> Iterator[tuple[Feed, ObjectStore]]:
    options = s3_location.options
    root = s3_location.uri.removesuffix("/table")
    is_moved = feed.after_ingest is AfterIngest.MOVE
    landing = Location(f"{root}/landing", options)
    feed.more = {
        "landing": landing,
        "moved_to": Location(f"{root}/moved", options) if is_moved else None,
    }
    yield feed, StoreLocation.of(root, dict(options)).open()


@pytest.mark.minio
def test_on_s3_as_in_a_folder(s3_feed: tuple[Feed, ObjectStore], tmp_path: Path) -> None:
    feed, store = s3_feed
    for number in range(3):
        file = tmp_path / "one.parquet"
        pq.write_table(pa.table({"id": [number], "v": ["x"]}), file)
        store.put(f"landing/{number}.parquet", file.read_bytes())
    at = locate(feed.more["landing"])
    feed.more["files"] = list_arrived(at.open(), FileFormat.PARQUET).files
    result = feed.run()
    assert (result.outcome, result.files_cleared, feed.ids()) == (Outcome.SUCCEEDED, 3, [0, 1, 2])
    assert [*store.list("landing")] == []
    moved = sorted(info.path for info in store.list("moved"))
    expected = [f"moved/{number}.parquet" for number in range(3)]
    assert moved == (expected if feed.after_ingest is AfterIngest.MOVE else [])
