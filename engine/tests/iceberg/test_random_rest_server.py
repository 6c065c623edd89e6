"""A REST catalog in which anything happens at any request, against every verb of Iceberg.

At each request another writer may commit, the table may be renamed, or dropped, with a new one made
in its folder. The answer may be any error, before or after the commit took place, or none, and a
commit without an answer may take place later. Whatever came of it:

1. what the verb says is true: committed only if it is, not committed only if it never will be,
   unknown only where no answer said it;
2. every live table has the rows that its writers gave it, and every file that a snapshot leads to;
3. nothing is left that the removal of orphan files does not take, and nothing at all after a verb
   that is certain of its end.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.erasure.iceberg_rows import erase_iceberg_rows
from tideline.errors import ConflictError, TidelineError
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot, SnapshotRef
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_data_files.in_process import engine_for
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import (
    Committed,
    Unknown,
    committed_location,
    unknown_error,
)
from tideline.lake_table import LakeTable
from tideline.publication.published_table import INSTANT
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import TOKEN, Answer, Received
from tideline.testing.iceberg_audit import set_ref, stored
from tideline.testing.iceberg_delete_table import DeleteTable

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.rest import RestCatalog

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.testing.served_catalog import ServedCatalog, ServedModel, refusal

NAME, RENAMED = "shop.orders", "shop.orders_old"
EVERYTHING = ExpireOptions(older_than_ms=2**62)
REFUSED = (429, 404, 409, 422)
IN_DOUBT = (500, 502, 503, 504)
FATES = ("honest", "refused", "unanswered", "done, unanswered", "done, refused", "late")
SEEDS = 40
MORE_SEEDS = int(os.environ.get("TIDELINE_SEEDS", "1000"))


def rewrite(operations: CatalogTable, **given: str) -> bool:
    named = {"rewrite-all": "true", **{key.replace("_", "-"): text for key, text in given.items()}}
    options = RewriteOptions.parse(named, properties={})
    table = IcebergTable(operations)
    run = rewrite_data_files(table, options, engine_for(options, pytest.fail), clock=FakeClock())
    return bool(run.snapshot_ids)


def rewrite_without_dangling(operations: CatalogTable) -> bool:
    return rewrite(operations, remove_dangling_deletes="true")


def rewrite_deletes(operations: CatalogTable) -> bool:
    options = delete_rewrite_options({"rewrite-all": "true"}, {})
    run = execute_position_deletes(operations, options, clock=FakeClock())
    for outcome in run.outcomes:
        if isinstance(outcome, Unknown):
            raise unknown_error(outcome, table=NAME, what="the deletes are rewritten")
        if not isinstance(outcome, Committed):
            raise ConflictError(str(outcome))
    return bool(run.outcomes)


def rewrite_manifests(operations: CatalogTable) -> bool:
    run = execute_manifests(operations, ManifestOptions(), clock=FakeClock())
    return committed_location(run.outcome, table=NAME) is not None


def expire(operations: CatalogTable) -> bool:
    run = execute_expire(operations, EVERYTHING, clock=FakeClock())
    is_done = committed_location(run.outcome, table=NAME) is not None
    if run.failure is not None:
        raise run.failure
    return is_done


def remove_orphans(operations: CatalogTable) -> bool:
    options = OrphanOptions(older_than_ms=2**62, is_forced=True)
    execute_orphans(operations, plan_orphans(operations, options))
    return False


Verb = Callable[[CatalogTable], bool]
VERBS: tuple[Verb, ...] = (
    rewrite, rewrite_without_dangling, rewrite_deletes, rewrite_manifests, expire, remove_orphans
)  # fmt: skip


@dataclass(slots=True)
class Fates:
    """What becomes of requests; `in_doubt` counts changes that no answer called done or refused."""

    catalog: ServedCatalog
    chance: random.Random
    late: list[Received] = field(default_factory=list)
    in_doubt: int = 0

    def answered(self, request: Received) -> Answer:
        """The answer to one request."""
        self.apply_late(0.2)
        answer = self.fate_of(request)
        if is_change(request) and (answer.lost or answer.status in IN_DOUBT):
            self.in_doubt += 1
        return answer

    def fate_of(self, request: Received) -> Answer:
        status = self.chance.choice(IN_DOUBT)
        unanswered = self.chance.choice((refusal(status, "Busy"), Answer(lost=True)))
        weights = (6, 2, 2, 2, 1, 2) if is_change(request) else (30, 1, 1, 0, 0, 0)
        match self.chance.choices(FATES, weights)[0]:
            case "refused":
                return refusal(self.chance.choice(REFUSED), "CommitFailedException")
            case "unanswered":
                return unanswered
            case "done, unanswered":
                done = self.catalog.honest(request)
                return unanswered if done.status == 200 else done
            case "done, refused":
                # A proxy sent the request twice.
                self.catalog.honest(request)
            case "late":
                self.late.append(request)
                return unanswered
        return self.catalog.honest(request)

    def apply_late(self, chance: float) -> None:
        """Requests on their way arrive."""
        for request in [received for received in self.late if self.chance.random() < chance]:
            self.late.remove(request)
            self.catalog.honest(request)


def is_change(request: Received) -> bool:
    return request.kind == "commit" or request.path.endswith("/register")


@dataclass(slots=True)
class Storm:
    """One catalog with one table, and what its writers gave to that and to those that follow."""

    fates: Fates
    tables: dict[str, DeleteTable] = field(default_factory=dict)
    rows: dict[str, set[int]] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    known: dict[str, frozenset[str]] = field(default_factory=dict)
    next_number: int = 0
    was_replaced: bool = False
    makes_tags: bool = True
    is_calm: bool = True

    def __post_init__(self) -> None:
        self.create()
        for _ in range(self.chance.randint(3, 5)):
            self.append()
        for _ in range(self.chance.randint(2, 4)):
            self.delete()
        self.catalog.reply = self.answered

    @property
    def catalog(self) -> ServedCatalog:
        return self.fates.catalog

    @property
    def chance(self) -> random.Random:
        return self.fates.chance

    @property
    def table(self) -> DeleteTable:
        """The one that has the name."""
        return self.tables[NAME]

    def create(self, location: str | None = None) -> None:
        self.tables[NAME] = DeleteTable(self.catalog.create(NAME, location))
        self.rows[self.uuid] = set()

    @property
    def uuid(self) -> str:
        return self.table.model.metadata().table_uuid

    def append(self) -> None:
        numbers = range(self.next_number, self.next_number + 4)
        self.next_number += 4
        self.table.append(f"d{numbers.start}", numbers)
        self.rows[self.uuid].update(numbers)

    def delete(self) -> None:
        """A row of some data file, by its position."""
        files = [entry.data_file for entry in self.table.data()]
        if not files:
            return
        file = self.chance.choice(files)
        numbers = self.table._read(file)[0].to_pylist()
        at = self.chance.randrange(len(numbers))
        name = file.file_path.partition("/data/")[2].removesuffix(".parquet")
        names_file = self.chance.random() < 0.5
        self.table.delete({name: [at]}, parity=str(file.partition[0]), names_file=names_file)
        self.rows[self.uuid].discard(numbers[at])

    def tag(self) -> None:
        snapshots = self.table.model.metadata().snapshots
        if snapshots:
            ref = SnapshotRef(self.chance.choice(snapshots).snapshot_id, "tag")
            set_ref(self.table.model, f"t{self.chance.randrange(3)}", ref)

    def rename(self) -> None:
        """Another table gets the name, in the same folder."""
        self.catalog.rename(NAME, RENAMED)
        old = self.tables.pop(NAME)
        assert isinstance(old.model, ServedModel)
        old.model.name = RENAMED
        self.tables[RENAMED] = old
        self.follow(old.model.location.uri)

    def drop(self) -> None:
        """Another table gets the name, in the same folder; the first one's files stay."""
        self.dropped.append(self.uuid)
        del self.rows[self.uuid]
        self.follow(self.table.model.location.uri)

    def follow(self, location: str) -> None:
        self.was_replaced = True
        self.create(location)
        self.append()

    def answered(self, request: Received) -> Answer:
        """What one request meets."""
        if self.is_calm or request.kind == "config":
            return self.catalog.honest(request)
        if self.chance.random() < 0.25:
            tags = 1 if self.makes_tags else 0
            self.chance.choices((self.append, self.delete, self.tag), (3, 3, tags))[0]()
        elif self.chance.random() < 0.06 and RENAMED not in self.tables and not self.dropped:
            self.chance.choice((self.rename, self.drop))()
        return self.fates.answered(request)

    def meets(self, verb: Verb) -> str:
        """Run it, with everything that happens, and check what it says."""
        before = self.strays()
        self.catalog.applied.clear()
        self.was_replaced, self.fates.in_doubt, self.is_calm = False, 0, False
        end = outcome_of(partial(verb, self.open()))
        self.is_calm = True
        was_applied = bool(self.catalog.applied)
        self.fates.apply_late(1)
        is_applied = bool(self.catalog.applied)
        said = f"{verb.__name__}: {end}"
        if end in ("committed", "FailedAfterCommit"):
            assert was_applied, said
        elif end == "UnknownOutcome":
            assert self.fates.in_doubt, said
        elif not self.was_replaced:
            assert not is_applied, said
        # Its last commit takes dangling deletes away, and may be in doubt after one that is not.
        in_doubt = verb is rewrite_without_dangling and self.fates.in_doubt > 0
        is_known = end != "UnknownOutcome" and not in_doubt
        if is_known and not self.was_replaced and verb is not remove_orphans:
            assert end == "FailedAfterCommit" or self.strays() == before, said
        return end

    def open(self) -> CatalogTable:
        given = {"uri": self.catalog.url}
        opened = open_catalog("lake", given, credentials={"token": TOKEN}, timeout_s=30.0)
        return CatalogTable(opened, NAME, clock=FakeClock())

    def strays(self) -> set[str]:
        """Files that no metadata of a live table leads to."""
        return stored(self.table.model) - self.used()

    def used(self) -> set[str]:
        """Every file that metadata of a live table leads to."""
        found: set[str] = set()
        for table in self.tables.values():
            loaded = table.model.operations().load()
            found.add(loaded.metadata_location)
            found.update(entry.metadata_file for entry in loaded.metadata.metadata_log)
            for snapshot in loaded.metadata.snapshots:
                found |= self.files_of(table.model.operations().io, snapshot)
        return {name.removeprefix(f"{self.table.model.location.uri}/") for name in found}

    def files_of(self, io: FileIO, snapshot: Snapshot) -> frozenset[str]:
        place = str(snapshot.manifest_list)
        if place not in self.known:
            manifests = manifests_of(io, snapshot)
            entries = (entries_of(io, manifest, live_only=True) for manifest in manifests)
            live = {entry.data_file.file_path for entry in chain.from_iterable(entries)}
            self.known[place] = frozenset(
                {place, *(manifest.path for manifest in manifests), *live}
            )
        return self.known[place]

    def assert_whole(self) -> None:
        """Each live table has its rows and all files of all its snapshots."""
        for table in self.tables.values():
            rows = self.rows[table.model.metadata().table_uuid]
            assert table.rows() == sorted(rows), table.model.metadata().table_uuid
        assert self.used() <= stored(self.table.model)

    def assert_tidied(self) -> None:
        """The removal of orphan files takes everything else."""
        dropped = tuple(self.dropped)
        if RENAMED not in self.tables:
            options = OrphanOptions(2**62, is_forced=True, dropped_tables=dropped)
            execute_orphans(self.open(), plan_orphans(self.open(), options))
            assert self.strays() == set()


def outcome_of(run: Callable[[], bool]) -> str:
    """How a verb ends for its caller."""
    try:
        return "committed" if run() else "nothing"
    except TidelineError as error:
        return error.kind


def ends_of(seed: int) -> Iterator[tuple[str, str]]:
    chance = random.Random(seed)
    with ServedCatalog() as catalog:
        storm = Storm(Fates(catalog, chance))
        for _ in range(4):
            verb = chance.choice(VERBS)
            yield verb.__name__, storm.meets(verb)
            storm.assert_whole()
        storm.assert_tidied()
        storm.assert_whole()


def publish_in(catalog: ServedCatalog, folder: Path, seed: int) -> Iterator[str]:
    """How publications of a Hudi table end; whatever was said, the next one makes up for it."""
    fates = Fates(catalog, random.Random(seed))
    properties = {"hoodie.clean.automatic": "false"}
    table = LakeTable.create(str(folder), record_key="id", properties=properties, clock=FakeClock())

    def publish() -> bool:
        return bool(table.publish(catalog=catalog.url, identifier=NAME).is_new)

    def published() -> list[str]:
        """The commits that the catalog's snapshots are of."""
        found = catalog.tables.get(NAME)
        snapshots = () if found is None else found.metadata.snapshots
        return [snapshot.summary.get(INSTANT, "") for snapshot in snapshots]

    for number in range(5):
        newest = str(table.write(pa.table({"id": [number], "v": [number]})).instant)
        catalog.reply, fates.in_doubt = fates.answered, 0
        end = outcome_of(publish)
        catalog.reply = catalog.honest
        before_late = published()
        fates.apply_late(1)
        yield end
        if end == "committed":
            assert before_late.count(newest) == 1
        elif end == "UnknownOutcome":
            assert fates.in_doubt
        else:
            assert newest not in published() or fates.in_doubt, end
    publish()
    assert published().count(newest) == 1
    client = RestCatalog("plain", uri=catalog.url, token=TOKEN)
    assert sorted(client.load_table(NAME).scan().to_arrow()["v"].to_pylist()) == list(range(5))
    assert not publish()


def test_a_publication_says_what_is_true_and_the_next_makes_up_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    for seed in range(6):
        with ServedCatalog() as catalog:
            monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", catalog.url)
            seen.update(publish_in(catalog, tmp_path / str(seed), seed))
    assert {"committed", "UnknownOutcome", "StorageUnavailable"} <= seen


@pytest.mark.spark
def test_an_erasure_takes_the_row_it_names_and_no_other(spark: SparkSession) -> None:
    seen: set[str] = set()
    for seed in range(10):
        chance = random.Random(seed)
        with ServedCatalog() as catalog:
            storm = Storm(Fates(catalog, chance), makes_tags=False)
            number = chance.choice(sorted(storm.rows[storm.uuid]))
            operations = storm.open()

            def erase(operations: CatalogTable = operations, number: int = number) -> bool:
                table = IcebergTable(operations)
                where = f"number = {number}"
                done = erase_iceberg_rows(table, where, spark=spark, clock=FakeClock())
                return done.is_complete

            storm.is_calm = False
            end = outcome_of(erase)
            storm.is_calm = True
            storm.fates.apply_late(1)
            seen.add(end)
            if end == "committed" and not storm.was_replaced:
                assert number not in storm.table.rows()
            for table in storm.tables.values():
                rows = storm.rows[table.model.metadata().table_uuid]
                rows -= {number} - set(table.rows())
            storm.assert_whole()
    assert "committed" in seen


@pytest.mark.parametrize("verb", VERBS[:-1], ids=lambda verb: verb.__name__)
def test_what_fails_after_a_commit_does_not_hide_it(verb: Verb) -> None:
    with ServedCatalog() as catalog:
        storm = Storm(Fates(catalog, random.Random(2)))
        operations = storm.open()

        def busy_after_a_commit(request: Received) -> Answer:
            return refusal(429, "Busy") if catalog.applied else catalog.honest(request)

        catalog.reply = busy_after_a_commit
        end = outcome_of(partial(verb, operations))
        assert len(catalog.applied) == 1
        assert end == ("FailedAfterCommit" if verb is expire else "committed")
        storm.assert_whole()


def test_what_is_said_is_true_and_no_live_file_goes() -> None:
    seen = {end for seed in range(SEEDS) for end in ends_of(seed)}
    assert {verb for verb, _ in seen} == {verb.__name__ for verb in VERBS}
    wanted = {"committed", "nothing", "Conflict", "UnknownOutcome", "StorageUnavailable"}
    assert wanted <= {end for _, end in seen}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_in_many_more_cases(part: int) -> None:
    for seed in range(SEEDS + part, SEEDS + MORE_SEEDS, 4):
        for _ in ends_of(seed):
            pass
