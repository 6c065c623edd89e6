"""Which files the next commit takes in."""

from __future__ import annotations

from tideline.ingest.sources.checkpoint import advance
from tideline.ingest.sources.files.listing import ArrivedFile, FileListing
from tideline.ingest.sources.files.plan import Batch, plan_batch

NOW_MS = 1_000_000


def landing(*modified_ms: int) -> FileListing:
    files = [ArrivedFile(f"f{at}", 10, at) for at in modified_ms]
    return FileListing(tuple(sorted(files, key=lambda file: file.position)))


def plan(landed: FileListing, *, files_max: int = 10, settle_ms: int = 1_000) -> Batch:
    return plan_batch(landed, None, files_max=files_max, now_ms=NOW_MS, settle_ms=settle_ms)


def names(batch: Batch) -> list[str]:
    return [file.path for file in batch.files]


def test_the_oldest_files_go_first_and_the_rest_is_backlog() -> None:
    batch = plan(landing(30, 10, 20, 40), files_max=2)
    assert names(batch) == ["f10", "f20"]
    assert (batch.backlog_files, batch.backlog_bytes, batch.size_bytes) == (2, 20, 20)


def test_files_taken_in_are_not_planned_again() -> None:
    landed = landing(10, 20, 30)
    checkpoint = advance(None, landed, landed.files[:2])
    batch = plan_batch(landed, checkpoint, files_max=10, now_ms=NOW_MS, settle_ms=0)
    assert names(batch) == ["f30"]


def test_an_older_file_that_arrives_later_is_planned() -> None:
    before = landing(10, 30)
    checkpoint = advance(None, before, before.files)
    batch = plan_batch(landing(10, 20, 30), checkpoint, files_max=10, now_ms=NOW_MS, settle_ms=0)
    assert names(batch) == ["f20"]


def test_a_file_changed_a_moment_ago_waits_until_it_has_settled() -> None:
    batch = plan(landing(10, NOW_MS - 999))
    assert names(batch) == ["f10"]
    assert (batch.unsettled_files, batch.settled_at_ms) == (1, NOW_MS + 1)
    assert names(plan(landing(NOW_MS - 1_000))) == [f"f{NOW_MS - 1_000}"]


def test_a_store_of_whole_objects_makes_nothing_wait() -> None:
    assert names(plan(landing(NOW_MS), settle_ms=0)) == [f"f{NOW_MS}"]


def test_a_time_in_the_future_does_not_make_a_file_wait_for_ever() -> None:
    assert names(plan(landing(NOW_MS + 60_000))) == [f"f{NOW_MS + 60_000}"]


def test_nothing_new_is_an_empty_batch() -> None:
    landed = landing(10)
    checkpoint = advance(None, landed, landed.files)
    planned = plan_batch(landed, checkpoint, files_max=10, now_ms=NOW_MS, settle_ms=0)
    assert planned == Batch(remembered_files=1)
