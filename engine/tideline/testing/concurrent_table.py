"""A table in MinIO that Hudi and Tideline write at the same time, and what it must then hold.

Hudi makes it, with its defaults, and writes it in its JVM; Tideline writes it in this process.
Every batch has a value of its own, and what is committed is asked of the timeline: put in the order
in which they completed, the committed batches say what every reader must find.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.service import TableService
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.run import ServiceRun
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_on_s3 import STORAGE_LOCK
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.json_line_process import PeerFailureError
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, stale_listing

PARTITIONS = 4

FILES_ALONE = {"hoodie.metadata.index.column.stats.enable": "false"}
"""Hudi keeps of its metadata table what Tideline keeps too. By default it also has statistics."""

WITHOUT_COMPACTION = {**FILES_ALONE, "hoodie.compact.inline": "false"}
"""Our appends lose to a compaction that is scheduled meanwhile."""

NO_METADATA_TABLE = {"hoodie.metadata.enable": "false"}
"""In version 6 each commit of ours switches it off, and a write of Hudi's that reads it fails."""

HUDIS_DEFAULTS: dict[str, str] = {}

DEAD_AT_ONCE = {
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "1",
}
"""A process that has been silent for a second counts as dead."""

# A setting that Hudi stores in its commit; of a session it takes those alone that are its own.
_BATCH = "hoodie.tideline.batch"
_STORES_BATCH = {"hoodie.datasource.write.commitmeta.key.prefix": _BATCH}
MERGE = "merge into"
"""The operation that is a statement of Hudi's SQL: updates of stored keys, inserts of others."""
_LOST = "HoodieWriteConflictException"
_LOST_METADATA_TABLE = re.compile(
    "HoodieMetadataException: Bootstrap on|completing streaming commit to metadata"
)
_ROLLED_BACK_TWICE = re.compile(
    r"Failed to rollback .*(Could not delete instant|rollback\.inflight already exists)", re.DOTALL
)
_HEARTBEAT_ENDED = "Failed to check heartbeat for instant"
_ATTEMPTS_MAX = 20
_KEYS = range(12)


def on_tables(
    *tables: tuple[int, TableType], options: Mapping[str, str] = FILES_ALONE
) -> pytest.MarkDecorator:
    """Run a test on a `concurrent_table` of each version and type, made with Hudi's options."""
    given = [(*described, options) for described in tables]
    return pytest.mark.parametrize(
        "concurrent_table", given, ids="v{0[0]} {0[1]}".format, indirect=True
    )


@pytest.fixture
def concurrent_table(
    request: pytest.FixtureRequest, s3_location: StoreLocation, hudi_peer_on_s3: HudiPeer
) -> ConcurrentTable:
    """The table that `on_tables` asks for."""
    version, table_type, options = request.param
    return ConcurrentTable.made_by_hudi(
        s3_location, hudi_peer_on_s3, version, table_type, _KEYS, options
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """One write: the keys it takes and the value it gives them, None when it deletes them."""

    operation: str
    keys: tuple[int, ...]
    value: int

    @property
    def rows(self) -> pa.Table:
        return batch(self.keys, self.value, partitions=PARTITIONS)


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch and its commit: when it began, when it completed, which file groups it touched."""

    made: Batch
    began: InstantTime
    completed: InstantTime
    file_ids: frozenset[str]

    def apply(self, rows: dict[str, CommittedBatch]) -> None:
        """Change `rows`, each key with the commit that wrote its row.

        A delete that found none of a key touches no file group of it, so that it conflicts with no
        insert of the key that is first to complete: it stands before that insert.
        """
        for key in self.made.rows.column("id").to_pylist():
            if self.made.operation != "delete":
                rows[key] = self
            elif key in rows and not self._stands_before(rows[key]):
                del rows[key]

    def _stands_before(self, insert: CommittedBatch) -> bool:
        if not self.file_ids:
            return True
        return insert.completed > self.began and not insert.file_ids & self.file_ids


@dataclass
class ConcurrentTable:
    """The table, and all batches that were tried: ours by their instant, Hudi's by their value."""

    small: SmallTable
    peer: HudiPeer
    version: int
    table_type: TableType
    hudi_options: Mapping[str, str]
    ours: dict[str, Batch] = field(default_factory=dict)
    hudis: dict[int, Batch] = field(default_factory=dict)
    done_by_hudi: set[int] = field(default_factory=set)
    conflicts_of_hudi: int = 0
    failures_of_hudi: int = 0
    conflicts_of_ours: int = 0
    _values: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def made_by_hudi(
        cls,
        location: StoreLocation,
        peer: HudiPeer,
        version: int,
        table_type: TableType,
        keys: Iterable[int],
        hudi_options: Mapping[str, str],
    ) -> ConcurrentTable:
        """Created by Hudi's first insert; in version 6 without a metadata table."""
        options = {**(NO_METADATA_TABLE if version == 6 else {}), **hudi_options}
        table = cls(SmallTable(location), peer, version, table_type, options)
        table.write_with_hudi(
            "insert",
            keys,
            **{
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodie.datasource.write.partitionpath.field": "part",
                "hoodie.datasource.write.table.type": table_type.value,
            },
        )
        return table

    @property
    def uri_of_hudi(self) -> str:
        return self.small.location.spark_uri()

    @property
    def table(self) -> HoodieTable:
        return open_fresh(self.small.location)

    def write(
        self,
        operation: str,
        keys: Iterable[int],
        *,
        after_files: Callable[[], object] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> str:
        """Write with Tideline; the instant. Raises ConflictError when it lost."""
        made = self._batch(operation, keys)
        try:
            report = self.small.write(
                operation, made.rows, after_files=after_files, options=options
            )
        except ConflictError:
            self.conflicts_of_ours += 1
            raise
        self.ours[report.instant] = made
        return report.instant

    def write_until_done(self, operation: str, keys: Iterable[int]) -> str:
        """Write with Tideline, again after every conflict."""
        chosen = tuple(keys)
        for attempts_left in range(_ATTEMPTS_MAX, -1, -1):
            try:
                return self.write(operation, chosen)
            except ConflictError:
                if not attempts_left:
                    raise
                time.sleep(0.2)
        raise AssertionError("not reached")

    def write_with_hudi(self, operation: str, keys: Iterable[int], **options: str) -> bool:
        """Write with Hudi; False when it lost to another writer."""
        made = self._batch(operation, keys)
        self.hudis[made.value] = made
        given = {
            **version_options(self.version),
            **STORAGE_LOCK,
            **_STORES_BATCH,
            **self.hudi_options,
            **options,
            _BATCH: str(made.value),
        }
        try:
            self._write_past_heartbeats(made, given)
        except PeerFailureError as failure:
            is_conflict = _LOST in str(failure)
            is_expected = (
                self._is_lost_metadata_table(failure)
                or _is_rolled_back_twice(failure)
                or _HEARTBEAT_ENDED in str(failure)
            )
            if not is_conflict and not is_expected:
                raise
            self.conflicts_of_hudi += is_conflict
            self.failures_of_hudi += not is_conflict
            if not self._has_committed(made):
                return False
        self.done_by_hudi.add(made.value)
        return True

    def _write_past_heartbeats(self, made: Batch, options: Mapping[str, str]) -> None:
        """Write with Hudi, again where it met a heartbeat that ended between its two looks at it.

        It asks whether the object is there, and then for its age. Raises PeerFailureError.
        """
        for attempts_left in range(_ATTEMPTS_MAX, -1, -1):
            try:
                self._write_once(made, options)
            except PeerFailureError as failure:
                is_ended = _HEARTBEAT_ENDED in str(failure) and not self._has_committed(made)
                if not is_ended or not attempts_left:
                    raise
            else:
                return

    def _write_once(self, made: Batch, options: Mapping[str, str]) -> None:
        if made.operation == MERGE:
            _merge_into(self.peer, self.uri_of_hudi, made.rows, options)
            return
        named = {"hoodie.table.name": "concurrent", **options}
        self.peer.write(self.uri_of_hudi, made.rows, operation=made.operation, options=named)

    def _has_committed(self, made: Batch) -> bool:
        """Whether a write of Hudi that failed took place: it also rolls back once it committed."""
        batches = (metadata.extra_metadata.get(_BATCH) for _, metadata in _commits(self.table))
        return str(made.value) in batches

    def write_with_hudi_until_done(
        self, operation: str, keys: Iterable[int], **options: str
    ) -> None:
        """Write with Hudi, again after every conflict."""
        chosen = tuple(keys)
        for _ in range(_ATTEMPTS_MAX):
            if self.write_with_hudi(operation, chosen, **options):
                return
        raise AssertionError(f"Hudi lost {_ATTEMPTS_MAX} times")

    def run_service(self, service: TableService, options: Mapping[str, str]) -> ServiceRun:
        """Run a service with Tideline; it tries again what lost to a writer."""
        for attempts_left in range(_ATTEMPTS_MAX, -1, -1):
            try:
                return local_services(self.small, options).run(service)
            except ConflictError:
                if not attempts_left:
                    raise
                time.sleep(0.5)
        raise AssertionError("not reached")

    @contextmanager
    def alongside(self, work: Callable[[], object], *, pause_s: float) -> Iterator[None]:
        """Do `work` here, again and again with pauses, at least once and until the block ends."""
        stop = threading.Event()

        def repeat() -> None:
            work()
            while not stop.wait(pause_s):
                work()

        with ThreadPoolExecutor(1) as pool:
            repeating = pool.submit(repeat)
            try:
                yield
            finally:
                stop.set()
            repeating.result()

    def committed(self) -> list[CommittedBatch]:
        """The batches that are committed, in the order in which they completed."""
        found = dict[InstantTime, CommittedBatch]()
        for instant, metadata in _commits(self.table):
            time = instant.completed_at
            assert time is not None
            assert time not in found
            extra = metadata.extra_metadata
            if str(instant.time) in self.ours:
                made = self.ours[str(instant.time)]
            elif _BATCH in extra:
                made = self.hudis[int(extra[_BATCH])]
            else:
                continue
            stats = metadata.write_stats
            if made.operation == "delete":
                stats = tuple(stat for stat in stats if stat.num_deletes)
            file_ids = frozenset(str(stat.file_id) for stat in stats)
            found[time] = CommittedBatch(made, instant.time, time, file_ids)
        return [commit for _, commit in sorted(found.items(), key=lambda pair: pair[0])]

    def expected(self) -> list[tuple[str, int]]:
        """Key and value of every row that the committed batches leave."""
        rows: dict[str, CommittedBatch] = {}
        committed = self.committed()
        values = [commit.made.value for commit in committed]
        assert len(values) == len(set(values)), "a batch is committed twice"
        wanted = self.done_by_hudi | {made.value for made in self.ours.values()}
        assert set(values) == wanted, "a writer was told otherwise than the timeline says"
        for commit in committed:
            commit.apply(rows)
        return sorted((key, commit.made.value) for key, commit in rows.items())

    def described(self) -> str:
        """A line for each commit: its times, its batch, and what it did to which file group."""
        lines = []
        for instant, metadata in _commits(self.table):
            batch_of_hudi = self.hudis.get(int(metadata.extra_metadata.get(_BATCH, -1)))
            made = self.ours.get(str(instant.time), batch_of_hudi)
            files = ", ".join(
                f"{str(stat.file_id)[:8]} +{stat.num_inserts} ~{stat.num_update_writes}"
                f" -{stat.num_deletes}"
                for stat in metadata.write_stats
            )
            lines.append(f"{instant.time} done {instant.completed_at} {made}: {files}")
        return "\n".join(sorted(lines))

    def check(self) -> None:
        """All readers find the rows of what is committed, also by way of Hudi's statistics."""
        expected = self.expected()
        answers = {
            "ours, plainly": sorted(self.small.values()),
            "ours": self.small.merged_values(),
            "hudi-rs": _pairs(self.peer.read_with_hudi_rs(self.small.location.uri)),
        }
        for reader, options in self._readers().items():
            answers[reader] = _pairs(self.peer.read(self.uri_of_hudi, options, ["id", "v"]))
        wrong = {reader: found for reader, found in answers.items() if found != expected}
        assert not wrong, (
            f"committed is {expected}; other answers: {wrong}; commits:\n{self.described()}"
        )
        self._check_skipping(expected)
        # Hudi begins to write the metadata table before it knows whether it may commit.
        begun = [str(instant.time) for instant in self.pending()]
        stale = [
            wrong for wrong in stale_listing(self.table) if not any(time in wrong for time in begun)
        ]
        assert stale == [], stale
        errors = [
            finding
            for finding in self.small.lake().check(keys=True)
            if finding.severity is Severity.ERROR
        ]
        assert errors == [], errors

    def finish(self) -> None:
        """Undo what lost writes left, after which nothing of them is anywhere."""
        self.run_service(ROLLBACK, DEAD_AT_ONCE)
        assert not self.pending(), self.pending()
        self.check()

    def pending(self) -> Sequence[Instant]:
        return self.table.timeline().pending().instants

    def _readers(self) -> dict[str, dict[str, str]]:
        """Hudi's readers with their options.

        Where Hudi lists folders, a base file that an append has not committed hides committed logs
        (Hudi 1.2.0: HoodieFileGroup.getBaseInstantTime does not ask whether a slice is committed).
        """
        readers = {"hudi, metadata table on": {"hoodie.metadata.enable": "true"}}
        has_completion_times = self.version > 6
        is_merged = self.table_type is TableType.MERGE_ON_READ
        if not (is_merged and has_completion_times and self.pending()):
            readers["hudi, metadata table off"] = {"hoodie.metadata.enable": "false"}
        return readers

    def _check_skipping(self, expected: list[tuple[str, int]]) -> None:
        """A query with a filter leaves out files by what the metadata table says of columns."""
        options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
        for value in sorted({value for _, value in expected})[-2:]:
            rows = self.peer.aggregate(
                self.uri_of_hudi, f"select id, v from t where v = {value}", options
            ).result
            wanted = [list(pair) for pair in expected if pair[1] == value]
            assert sorted(rows) == wanted, f"rows with the value {value}"

    def _is_lost_metadata_table(self, failure: PeerFailureError) -> bool:
        """Whether Hudi gave up because its statistics were dropped while it wrote.

        When it finds them gone at its commit, it rebuilds them before it takes the lock
        (Hudi 1.2.0: SparkRDDWriteClient.commit, StreamingMetadataWriteHandler), and fails when
        another commit drops them meanwhile.
        """
        keeps_statistics = self.version > 6 and not self.hudi_options.keys() & FILES_ALONE.keys()
        return keeps_statistics and _LOST_METADATA_TABLE.search(str(failure)) is not None

    def _batch(self, operation: str, keys: Iterable[int]) -> Batch:
        with self._counting:
            self._values += 1
            return Batch(operation, tuple(keys), self._values)


def _merge_into(peer: HudiPeer, uri: str, rows: pa.Table, options: Mapping[str, str]) -> None:
    """MERGE INTO of Hudi's SQL with the rows of a batch: it updates stored keys and inserts others.

    The options stay set in the peer's session. Raises PeerFailureError.
    """
    name = peer.table_at(uri)
    for option, text in options.items():
        peer.run_statement(f"set {option}={text}")
    columns = (rows[column].to_pylist() for column in ("id", "part", "v"))
    listed = ", ".join(f"('{id_}', '{part}', {v}L)" for id_, part, v in zip(*columns, strict=True))
    peer.run_statement(
        f"merge into {name} as t using (select * from values {listed} as x(id, part, v)) as s "
        "on t.id = s.id and t.part = s.part "
        "when matched then update set * when not matched then insert *"
    )


def _is_rolled_back_twice(failure: PeerFailureError) -> bool:
    """Whether Hudi was rolling back a write that it had lost when we had just done so, or finished
    what it had planned.

    We hold the table's lock for that, Hudi does not; its failed write is undone either way.
    """
    return _ROLLED_BACK_TWICE.search(str(failure)) is not None


def _commits(table: HoodieTable) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Every completed commit, archived ones too."""
    seen = set()
    for instant in table.timeline().completed().of(*COMMIT_ACTIONS):
        seen.add(instant.time)
        yield instant, table.commits.read(instant)
    for entry in table.commits.archive().commits():
        if entry.instant.time not in seen:
            yield entry.instant, entry.commit_metadata()


def _pairs(rows: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
