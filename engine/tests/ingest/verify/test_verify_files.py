"""A table compared with the files of a landing prefix: what differs is named, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.ingest.sources.files import replay
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.replay import TakenIn
from tideline.ingest.verify.feed import Feed
from tideline.ingest.verify.history import commits_of
from tideline.ingest.verify.key_buckets import bucket_count
from tideline.ingest.verify.verification import Kind, Verification
from tideline.testing.landing_feed import LandingFeed
from tideline.testing.planted_differences import named, verified_together
from tideline.testing.stream_feed import KINDS


def verified(*feeds: LandingFeed) -> Verification:
    return verified_together(*(feed.declared for feed in feeds))


def history(feed: LandingFeed, files: int, *, seed: int = 0, first: int = 1) -> None:
    """Files of rows with updates and late ones."""
    chance = random.Random(seed)
    for number in range(first, first + files):
        keys = chance.sample(range(60), 12)
        feed.land(number, [(key, number - chance.choice((0, 0, 3)), f"v{number}") for key in keys])


def plant(feed: LandingFeed) -> set[tuple[Kind, str]]:
    """A row changed, one deleted, one added, one doubled, by another writer: what is to be
    found."""
    table, rows = feed.lake(), feed.rows("id", "ts", "v")
    changed, deleted, doubled = rows[3], rows[7], rows[9]
    table.upsert([{"id": changed[0], "ts": changed[1], "v": "changed"}])
    table.delete(f"id = {deleted[0]}")
    table.append([{"id": 9_999, "ts": 1, "v": "added"}])
    table.append([dict(zip(("id", "ts", "v"), doubled, strict=True))])
    return {
        (Kind.DIFFERENT, str(changed[0])),
        (Kind.MISSING, str(deleted[0])),
        (Kind.EXTRA, "9999"),
        (Kind.EXTRA, str(doubled[0])),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ordering", [(), ("ts",)])
def test_a_table_is_equal_to_its_files_and_planted_faults_are_named(
    kind: str, ordering: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many buckets, and ranges that end inside of a commit.
    monkeypatch.setattr(f"{bucket_count.__module__}._ROWS_PER_BUCKET", 50)
    monkeypatch.setattr(replay, "FILES_MAX", 3)
    feed = LandingFeed.of(tmp_path, ordering=ordering, files_max=4).into(kind)
    history(feed, 10)
    feed.drain()
    # Behind the checkpoint; another one came late, and is in a later commit than younger ones.
    feed.land(5_000, [(1, 999, "late")], at=-100)
    feed.drain()
    feed.land(6_000, [(2, 999, "not read yet"), (777, 1, "not read yet")])
    clean = verified(feed)
    assert clean.found.is_equal, clean.found
    assert (clean.found.unknown, clean.found.undecided, clean.gone) == (0, 0, ())
    assert (clean.records, clean.found.equal) == (121, len(feed.rows()))
    assert clean.found.equal > 40

    expected = plant(feed)
    # A row of the file behind the checkpoint.
    feed.lake().append([{"id": 777, "ts": 1, "v": "not read yet"}])
    faulty = verified(feed)
    assert named(faulty) == {*expected, (Kind.EXTRA, "777")}
    counts = faulty.found.missing, faulty.found.extra, faulty.found.different
    assert counts == (1, 3, 1)


def test_rows_of_a_partitioned_table_are_compared_in_their_partitions(tmp_path: Path) -> None:
    feed = LandingFeed.of(tmp_path, partition_by=("v",))
    feed.land(1, [(1, 1, "a"), (1, 2, "b"), (2, 1, "a")])
    feed.land(2, [(2, 3, "a"), (3, 1, None)])
    feed.drain()
    assert verified(feed).found.equal == 4
    feed.lake().upsert([{"id": 1, "ts": 1, "v": "c"}, {"id": 2, "ts": 9, "v": "a"}])
    found = {(row.kind, row.key, row.partition) for row in verified(feed).found.first}
    assert found == {(Kind.EXTRA, "1", "c"), (Kind.DIFFERENT, "2", "a")}


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_rows_that_are_only_inserted_are_compared_as_a_bag(operation: str, tmp_path: Path) -> None:
    feed = LandingFeed.of(tmp_path, operation=operation)
    feed.land(1, [(1, 1, "a"), (1, 1, "a"), (1, 2, "b")])
    feed.land(2, [(1, 1, "a"), (2, 1, "c")])
    feed.drain()
    clean = verified(feed)
    assert (clean.found.is_equal, clean.found.equal, clean.records) == (True, 5, 5)
    feed.lake().append([{"id": 1, "ts": 1, "v": "a"}, {"id": 3, "ts": 1, "v": "d"}])
    feed.lake().delete("id = 2")
    faulty = verified(feed)
    assert named(faulty) == {(Kind.EXTRA, "1"), (Kind.EXTRA, "3"), (Kind.MISSING, "2")}
    assert (faulty.found.extra, faulty.found.missing) == (2, 1)


def test_files_that_are_gone_leave_their_rows_open_and_no_others(tmp_path: Path) -> None:
    feed = LandingFeed.of(tmp_path, files_max=1)
    feed.land(1, [(n, 1, "a") for n in range(10)])
    second = feed.land(2, [(n, 2, "b") for n in range(5)])
    feed.land(3, [(n, 3, "c") for n in range(4, 8)])
    feed.drain()
    second.unlink()
    partly = verified(feed)
    assert partly.gone == ("1 file: 0002.parquet",)
    # Keys 0 to 3 were changed by the file that is gone; 4 to 7 are of the last one.
    assert partly.found.is_equal
    assert (partly.found.equal, partly.found.unknown) == (6, 4)

    table = feed.lake()
    table.upsert([{"id": 9, "ts": 1, "v": "changed"}, {"id": 999, "ts": 1, "v": "added"}])
    table.delete("id = 6")
    # That may be the work of the file that is gone.
    table.delete("id = 8")
    faulty = verified(feed)
    assert named(faulty) == {
        (Kind.DIFFERENT, "9"),
        (Kind.EXTRA, "999"),
        (Kind.MISSING, "6"),
    }
    assert faulty.found.unknown == 5


def test_a_replaced_file_is_named_and_counts_for_what_was_taken_in(tmp_path: Path) -> None:
    feed = LandingFeed.of(tmp_path, files_max=1)
    feed.land(1, [(1, 1, "a"), (2, 1, "a")])
    feed.land(2, [(3, 1, "a")])
    feed.drain()
    feed.land(1, [(1, 2, "new"), (4, 2, "new")], at=50)
    waiting = verified(feed)
    assert waiting.gone == ("1 file, 1 of them replaced: 0001.parquet",)
    assert waiting.found.is_equal
    assert (waiting.found.equal, waiting.found.unknown) == (1, 2)
    feed.drain()
    taken = verified(feed)
    # The row of key 2 was in the file that is no more.
    assert (taken.found.is_equal, taken.found.equal, taken.found.unknown) == (True, 3, 1)
    feed.lake().delete("id = 4")
    assert named(verified(feed)) == {(Kind.MISSING, "4")}


@pytest.mark.parametrize("after_ingest", [AfterIngest.REMOVE, AfterIngest.MOVE])
def test_of_files_that_are_cleared_rows_of_others_are_found(
    after_ingest: AfterIngest, tmp_path: Path
) -> None:
    moved_to = Location(f"file://{tmp_path}/moved") if after_ingest is AfterIngest.MOVE else None
    declared = {"after_ingest": after_ingest, "moved_to": moved_to}
    feed = LandingFeed.of(tmp_path, declared=declared, files_max=1)
    history(feed, 4)
    feed.drain()
    clean = verified(feed)
    assert not list(feed.landing.glob("*.parquet"))
    assert clean.found.is_equal
    assert (clean.found.equal, clean.found.unknown, clean.records) == (0, clean.rows, 0)
    assert clean.gone == ("4 files: 0004.parquet, 0003.parquet, 0002.parquet, ...",)
    feed.lake().append([{"id": 9_999, "ts": 1, "v": "added"}])
    assert named(verified(feed)) == {(Kind.EXTRA, "9999")}


def test_commits_in_the_archive_say_what_they_took_in(tmp_path: Path) -> None:
    feed = LandingFeed.of(tmp_path, files_max=1, ordering=("ts",))
    keep = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4",
            "hoodie.clean.commits.retained": "1"}  # fmt: skip
    feed = replace(feed, write_properties=keep)
    history(feed, 12)
    feed.drain()
    table = feed.table()
    assert table is not None and table.timeline().has_archive
    clean = verified(feed)
    assert (clean.found.is_equal, clean.gone, clean.found.unknown) == (True, (), 0)
    (feed.landing / "0001.parquet").unlink()
    assert verified(feed).gone == ("1 file: 0001.parquet",)


def test_what_no_commit_names_any_more_has_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = LandingFeed.of(tmp_path, files_max=1)
    feed.land(1, [(1, 1, "a"), (2, 1, "a")])
    feed.land(2, [(1, 2, "b")])
    feed.land(3, [(3, 1, "a")])
    feed.drain()

    def only_newest(*given: Any) -> Iterator[TakenIn]:
        return islice(commits_of(*given), 1)

    monkeypatch.setattr(f"{Feed.__module__}.commits_of", only_newest)
    clean = verified(feed)
    assert [gone.partition(" before ")[0] for gone in clean.gone] == ["what was taken in"]
    counts = clean.found.equal, clean.found.undecided, clean.found.unknown
    assert (clean.found.is_equal, counts) == (True, (2, 1, 0))


def test_a_landing_prefix_that_was_not_read_is_not_compared(tmp_path: Path) -> None:
    feed = LandingFeed.of(tmp_path)
    feed.land(1, [(1, 1, "a")])
    feed.drain()
    other = replace(feed.source, landing=Location(f"file://{tmp_path}/other"))
    with pytest.raises(ConfigError, match="its source is another now"):
        verified(replace(feed, source=other))
