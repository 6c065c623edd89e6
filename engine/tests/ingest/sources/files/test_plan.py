"""Which files the next commit takes in."""

from __future__ import annotations

from dataclasses import replace

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.source import Backlog, Limits, Nothing
from tideline.testing.file_ingests import checkpoint_after

NOW_MS = 1_000_000


def landing(*modified_ms: int) -> FileListing:
    files = [ArrivedFile(f"f{at}", 10, at) for at in modified_ms]
    return FileListing(tuple(sorted(files, key=lambda file: file.arrival)))


def plan(
    landed: FileListing, after: Checkpoint | None = None, *, files_max: int = 10
) -> tuple[list[str], Backlog]:
    """The names of the next files, and what waits."""
    limits, position = Limits(files_max, NOW_MS), None if after is None else after.position
    planned = landed.plan(position, limits)
    names = [] if isinstance(planned, Nothing) else list(planned.names)
    return names, landed.backlog(position, limits)


def slow(*modified_ms: int) -> FileListing:
    """A folder in which a file is written for a second."""
    return replace(landing(*modified_ms), settle_ms=1_000)


def test_the_oldest_files_go_first_and_the_rest_is_backlog() -> None:
    names, backlog = plan(slow(30, 10, 20, 40), files_max=2)
    assert names == ["f10", "f20"]
    assert (backlog.parts, backlog.size_bytes, backlog.oldest_ms) == (4, 40, 10)


def test_files_taken_in_are_not_planned_again() -> None:
    landed = landing(10, 20, 30)
    checkpoint = checkpoint_after(None, landed, landed.files[:2])
    assert plan(landed, checkpoint)[0] == ["f30"]


def test_an_older_file_that_arrives_later_is_planned() -> None:
    before = landing(10, 30)
    checkpoint = checkpoint_after(None, before, before.files)
    assert plan(landing(10, 20, 30), checkpoint)[0] == ["f20"]


def test_a_file_that_a_listing_leaves_out_is_not_taken_in_twice() -> None:
    whole = landing(10, 20)
    checkpoint = checkpoint_after(None, whole, whole.files)
    assert plan(landing(), checkpoint)[0] == []
    cut = landing(30)
    checkpoint = checkpoint_after(checkpoint, cut, cut.files)
    assert plan(landing(10, 20, 30), checkpoint)[0] == []
    whole = landing(10, 20, 30, 40)
    checkpoint = checkpoint_after(checkpoint, whole, whole.files[3:])
    cut = landing(50)
    checkpoint = Checkpoint.decode(checkpoint_after(checkpoint, cut, cut.files).encode(), name="x")
    assert plan(landing(10, 20, 30, 40, 50), checkpoint)[0] == []


def test_a_file_changed_a_moment_ago_waits_until_it_has_settled() -> None:
    names, backlog = plan(slow(10, NOW_MS - 999))
    assert names == ["f10"]
    assert backlog.unsettled == 1
    waits = slow(NOW_MS - 999).plan(None, Limits(10, NOW_MS))
    assert waits == Nothing(NOW_MS + 1, "1 file may not be completely written yet")
    assert plan(slow(NOW_MS - 1_000))[0] == [f"f{NOW_MS - 1_000}"]


def test_a_store_of_whole_objects_makes_nothing_wait() -> None:
    assert plan(landing(NOW_MS))[0] == [f"f{NOW_MS}"]


def test_a_time_in_the_future_does_not_make_a_file_wait_for_ever() -> None:
    assert plan(slow(NOW_MS + 60_000))[0] == [f"f{NOW_MS + 60_000}"]


def test_nothing_new_is_an_empty_batch() -> None:
    landed = landing(10)
    checkpoint = checkpoint_after(None, landed, landed.files)
    assert plan(landed, checkpoint) == ([], Backlog(remembered=1))
    assert landed.plan(checkpoint.position, Limits(10, NOW_MS)) == Nothing()
