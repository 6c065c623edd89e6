"""Layout 1: file names of instants, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.testing.fixtures import fixture_table

T = InstantTime("20250922132154428")

CANONICAL = [
    Instant(T, action, state)
    for action in Action
    for state in State
    if action is not Action.CLUSTERING
    and (action, state) != (Action.SAVEPOINT, State.REQUESTED)
    and (state.is_pending or action.when_completed is action)
]


@pytest.mark.parametrize("instant", CANONICAL, ids=str)
def test_every_instant_parses_back_from_its_file_name(instant: Instant) -> None:
    assert LAYOUT_V1.parse(LAYOUT_V1.file_name(instant)) == instant


@given(st.from_regex(r"[0-9]{10,21}\.[a-z.]{0,24}", fullmatch=True))
def test_what_parses_prints_as_the_same_name(file_name: str) -> None:
    instant = LAYOUT_V1.parse(file_name)
    assert instant is None or LAYOUT_V1.file_name(instant) == file_name


@pytest.mark.parametrize(
    ("file_name", "action", "state"),
    [
        ("commit.requested", Action.COMMIT, State.REQUESTED),
        ("inflight", Action.COMMIT, State.INFLIGHT),
        ("commit", Action.COMMIT, State.COMPLETED),
        ("deltacommit.inflight", Action.DELTACOMMIT, State.INFLIGHT),
        ("compaction.requested", Action.COMPACTION, State.REQUESTED),
        ("logcompaction.inflight", Action.LOGCOMPACTION, State.INFLIGHT),
        ("replacecommit", Action.REPLACECOMMIT, State.COMPLETED),
        ("savepoint.inflight", Action.SAVEPOINT, State.INFLIGHT),
        ("rollback", Action.ROLLBACK, State.COMPLETED),
        ("indexing.requested", Action.INDEXING, State.REQUESTED),
    ],
)
def test_names_are_those_of_hudi(file_name: str, action: Action, state: State) -> None:
    assert LAYOUT_V1.file_name(Instant(T, action, state)) == f"{T}.{file_name}"


def test_services_complete_under_the_name_of_a_commit() -> None:
    names = {
        action: LAYOUT_V1.file_name(Instant(T, action, State.COMPLETED))
        for action in (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
    }
    assert names == {
        Action.COMPACTION: f"{T}.commit",
        Action.LOGCOMPACTION: f"{T}.deltacommit",
        Action.CLUSTERING: f"{T}.replacecommit",
    }


def test_pending_clustering_is_spelled_replacecommit() -> None:
    requested = Instant(T, Action.CLUSTERING, State.REQUESTED)
    assert LAYOUT_V1.file_name(requested) == f"{T}.replacecommit.requested"


@pytest.mark.parametrize(
    "file_name",
    [
        "hoodie.properties",
        "",
        str(T),
        f"{T}.",
        f".{T}.commit.crc",
        f"{T}.commit.crc",
        f"{T}.commit.inflight",
        f"{T}.savepoint.requested",
        f"{T}.compaction",
        f"{T}.clustering.requested",
        f"{T}.somethingelse",
        f"{T}.commit.requested.tmp",
        f"{T}_20250922132154999.deltacommit",
        "12.commit",
    ],
)
def test_what_is_no_instant_file_parses_to_none(file_name: str) -> None:
    assert LAYOUT_V1.parse(file_name) is None


def test_a_requested_savepoint_has_no_file() -> None:
    requested = Instant(T, Action.SAVEPOINT, State.REQUESTED)
    assert not LAYOUT_V1.has_requested_file(requested)
    with pytest.raises(ConfigError, match=str(T)):
        LAYOUT_V1.file_name(requested)


def test_an_empty_body_is_no_metadata_yet_while_pending_and_truncated_when_completed() -> None:
    inflight = Instant(T, Action.COMMIT, State.INFLIGHT)
    assert LAYOUT_V1.decode_commit(b"", inflight) == CommitMetadata()
    with pytest.raises(CorruptTableError) as corrupt:
        LAYOUT_V1.decode_commit(b"", inflight.in_state(State.COMPLETED))
    assert corrupt.value.path == f".hoodie/{T}.commit"
    assert str(T) in str(corrupt.value)


@pytest.mark.fixtures
@pytest.mark.parametrize(
    "table",
    [
        "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor",
        "hudi-rs.mor-parquet.v6_nonpartitioned_rollback/data/v6_nonpartitioned_rollback",
        "hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned",
    ],
)
def test_every_instant_file_of_a_real_table_is_recognised(table: str) -> None:
    for file in (fixture_table(table) / ".hoodie").iterdir():
        if not is_instant_time(file.name.partition(".")[0]):
            continue
        instant = LAYOUT_V1.parse(file.name)
        assert instant is not None, file.name
        assert LAYOUT_V1.file_name(instant) == file.name
