"""What would break once Tideline works on a table with others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.hudi.adoption.consequences import consequences_of
from tideline.hudi.adoption.table_state import ForeignFiles, PendingInstant, TableState
from tideline.hudi.capabilities.evidence import ControlFolder, writer_evidence
from tideline.hudi.capabilities.table_capabilities import IndexEvidence, TableCapabilities
from tideline.hudi.index.bucket_layout import BucketEngine, BucketLayout, KnownFrom
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import KNOWN_UTC, KnownZone, ZoneBasis

PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
}
STATE = TableState(1, "20250615150000000", (), (), False, None, 2, 10, 0, False, ForeignFiles())
T = InstantTime("20250615160000000")


def capabilities(zone: KnownZone = KNOWN_UTC, **changes: str) -> TableCapabilities:
    properties = {name.replace("__", "."): text for name, text in changes.items()}
    return TableCapabilities("memory://t", TableConfig(PROPERTIES | properties), zone)


def text_of(found: TableCapabilities, state: TableState = STATE) -> str:
    return "\n".join(
        f"{consequence.what}: {consequence.do}" for consequence in consequences_of(found, state)
    )


def test_for_every_table_other_writers_need_settings() -> None:
    text = text_of(capabilities())
    for setting in ("auto.upgrade=false", "StorageBasedLockProvider", "policy=LAZY"):
        assert setting in text


@pytest.mark.parametrize(
    ("silent", "action", "is_named"),
    [
        (True, Action.COMMIT, True),
        (False, Action.COMMIT, False),
        (True, Action.COMPACTION, False),
    ],
)
def test_a_write_that_would_be_rolled_back_is_named(
    silent: bool, action: Action, is_named: bool
) -> None:
    pending = PendingInstant(Instant(T, action, State.INFLIGHT), is_silent=silent)
    assert (str(T) in text_of(capabilities(), replace(STATE, pending=(pending,)))) is is_named


def test_what_goes_of_a_metadata_table_is_named() -> None:
    assert "metadata table" not in text_of(capabilities())
    kept = capabilities(hoodie__table__metadata__partitions="files,column_stats")
    assert "metadata table" not in text_of(kept)
    none = capabilities(hoodie__table__metadata__partitions="record_index")
    assert "metadata table off (record_index)" in text_of(none)
    left = replace(STATE, has_metadata_table=True)
    assert "what is left of a metadata table" in text_of(capabilities(), left)


def test_an_index_that_nothing_names_is_asked_for_by_who_writes() -> None:
    assert "GLOBAL_SIMPLE" in text_of(capabilities())
    named = replace(capabilities(), index=IndexEvidence("BUCKET", "its file ids"))
    assert "GLOBAL_SIMPLE" not in text_of(named)
    assert "GLOBAL_SIMPLE" not in text_of(capabilities(hoodie__table__cdc__enabled="true"))


def test_a_flink_job_that_knows_only_its_own_keys_is_named() -> None:
    commit = CommitMetadata(
        {"": (WriteStat(file_id="0b9d8e3a-7c1f-4a52-9e0d-5f6a7b8c9d0e"),)}, "UPSERT"
    )
    here = capabilities(hoodie__table__type="MERGE_ON_READ")
    done = Instant(T, Action.DELTACOMMIT, State.COMPLETED)
    for folder, commits in (
        (ControlFolder(has_flink=True), ()),
        (ControlFolder(), [(done, commit)]),
    ):
        written = replace(here, writers=writer_evidence(commits, folder, here.config))
        assert "index.bootstrap.enabled" in text_of(written)
    assert "index.bootstrap.enabled" not in text_of(here)
    in_buckets = BucketLayout(BucketEngine.SIMPLE, KnownFrom.FILE_IDS)
    index = IndexEvidence("BUCKET", "its file ids", in_buckets)
    assert "index.bootstrap.enabled" not in text_of(replace(written, index=index))


def test_an_unknown_zone_makes_what_depends_on_age_wait() -> None:
    assert "depends on age waits" in text_of(capabilities(KnownZone(basis=ZoneBasis.UNSURE)))
    assert "depends on age waits" not in text_of(capabilities(KnownZone(basis=ZoneBasis.SEEN)))


def test_neighbours_are_named() -> None:
    foreign = ForeignFiles(nested={"below": "Iceberg"})
    text = text_of(capabilities(), replace(STATE, foreign=foreign, outside_partitions=3))
    assert "table of Iceberg lies below this one, in below" in text
    assert "3 data files in folders without partition metadata" in text


def test_of_a_table_that_is_refused_nothing_is_said() -> None:
    assert text_of(capabilities(hoodie__table__version="8")) == ""
    foreign_lock = capabilities(hoodie__write__lock__provider="com.acme.Lock")
    assert "policy=LAZY" not in text_of(foreign_lock)


@pytest.mark.parametrize("state", [State.INFLIGHT, State.REQUESTED])
def test_a_build_of_an_index_that_commits_wait_for_is_named(state: State) -> None:
    pending = PendingInstant(Instant(T, Action.INDEXING, state), is_silent=True)
    text = text_of(capabilities(), replace(STATE, pending=(pending,)))
    assert ("wait for the index" in text) is (state is State.INFLIGHT)
