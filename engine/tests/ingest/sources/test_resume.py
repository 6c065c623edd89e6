"""Which checkpoint an ingest continues from when its source or its name changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.arrived import Arrival, ArrivedFile
from tideline.ingest.sources.files.declared import landing_address
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.position import FilesPosition
from tideline.ingest.sources.resume import Claim, Refused, Resume, resume_of
from tideline.testing.file_ingests import checkpoint_after

FILES = (ArrivedFile("1.csv", 10, 1), ArrivedFile("2.csv", 10, 2))
HERE, THERE = "s3://lake/landing", "s3://lake/elsewhere"
TAKEN = replace(checkpoint_after(None, FileListing(FILES), FILES), address=HERE)


def claim(name: str = "landing", *others: str, **fields: str) -> Claim:
    given = {"operation": "insert", "kind": "files", "address": HERE, **fields}
    return Claim(name, frozenset({name, *others}), **given)


def settled(wanted: Claim, **checkpoints: Checkpoint) -> Resume | Refused:
    return resume_of(wanted, checkpoints, FileListing(FILES))


def test_an_ingest_goes_on_from_its_own_checkpoint_or_starts() -> None:
    assert settled(claim(), landing=TAKEN) == Resume(TAKEN)
    assert settled(claim()) == Resume()


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
def test_another_prefix_under_the_same_name_is_refused_with_what_to_do(operation: str) -> None:
    found = settled(claim(address=THERE, operation=operation), landing=TAKEN)
    assert isinstance(found, Refused)
    assert found.reason == "SourceMoved"
    for words in (HERE, THERE, "source.movedFrom", "a new name"):
        assert words in found.message


def test_files_that_moved_along_keep_their_checkpoint() -> None:
    moved = claim(address=THERE, former_address=HERE)
    assert settled(moved, landing=TAKEN) == Resume(TAKEN)
    assert isinstance(
        settled(replace(moved, former_address="s3://lake/typo"), landing=TAKEN), Refused
    )


def test_a_checkpoint_of_before_prefixes_goes_on_where_the_spec_is() -> None:
    old = replace(TAKEN, address="")
    assert settled(claim(), landing=old) == Resume(old)
    assert (
        Checkpoint.decode(
            old.encode().replace('"prefix":"","tookOver":""', '"else":1'), name="landing"
        )
        == old
    )


@pytest.mark.parametrize("before", [TAKEN, replace(TAKEN, address="")])
def test_a_renamed_insert_is_refused_unless_it_says_what_it_was_called(before: Checkpoint) -> None:
    found = settled(claim("renamed"), landing=before)
    assert isinstance(found, Refused)
    assert found.reason == "IngestRenamed"
    assert "'landing'" in found.message
    assert "renamedFrom: landing" in found.message
    assert settled(claim("renamed", former_name="landing"), landing=before) == Resume(
        before, "landing"
    )


def test_an_upsert_may_start_over_under_a_new_name_and_two_ingests_may_share_a_prefix() -> None:
    assert settled(claim("again", operation="upsert"), landing=TAKEN) == Resume()
    assert settled(claim("second", "landing"), landing=TAKEN) == Resume()
    assert settled(claim("elsewhere", address=THERE), landing=TAKEN) == Resume()
    one_left = settled(claim("first"), first=TAKEN, second=replace(TAKEN, generation=9))
    assert one_left == Resume(TAKEN)


def test_a_name_that_is_given_back_does_not_fall_behind() -> None:
    newer = replace(TAKEN, generation=2, took_over="landing")
    back = settled(claim("landing"), landing=TAKEN, renamed=newer)
    assert isinstance(back, Refused)
    again = settled(claim("landing", former_name="renamed"), landing=TAKEN, renamed=newer)
    assert again == Resume(newer, "renamed")
    newest = replace(newer, generation=3, took_over="renamed")
    assert settled(claim("landing"), landing=newest, renamed=newer) == Resume(newest)


def test_a_former_name_must_not_be_in_use() -> None:
    found = settled(claim("renamed", "landing", former_name="landing"), landing=TAKEN)
    assert isinstance(found, Refused)


def test_a_local_folder_is_known_relative_to_the_table_so_that_both_may_move() -> None:
    here = landing_address("file:///a/b/landing", "file:///a/b/table")
    assert here == landing_address("file:///moved/landing", "file:///moved/table") == "../landing"
    assert landing_address("s3://lake/in/", "s3://lake/table") == "s3://lake/in"


def test_a_new_position_keeps_the_prefix() -> None:
    start = Checkpoint(1, FilesPosition(Arrival(1, "1.csv")), address=HERE)
    assert checkpoint_after(start, FileListing(FILES), FILES).address == HERE
