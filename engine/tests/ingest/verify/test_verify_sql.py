"""A table compared with files that SQL of its ingest makes rows of."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.verify.verification import Kind, Verification
from tideline.testing.landing_feed import LandingFeed
from tideline.testing.planted_differences import named, verified_together
from tideline.testing.stream_feed import KINDS, columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LANDED = columns(id="long", ts="long", v="string", status="string")
TRANSFORM = """
with codes as (select * from values ('ok', 1), ('late', 2) as c(code, rank))
select id, ts, concat(upper(v), '-', coalesce(rank, 0)) as v, status, _tideline_sequence
from source left join codes on code = status
where v <> 'skip'
"""


def feed_of(
    folder: Path, spark: SparkSession, kind: str = "MERGE_ON_READ", **given: Any
) -> LandingFeed:
    feed = LandingFeed.of(folder, schema=LANDED, landed=LANDED, files_max=3, **given)
    return replace(feed, session_factory=lambda _: spark).into(kind)


def verified(feed: LandingFeed) -> Verification:
    return verified_together(feed.declared, session_factory=feed.session_factory)


def history(feed: LandingFeed) -> None:
    """Files with updates, and keys that go and come back."""
    chance = random.Random(7)
    for number in range(1, 8):
        rows = [
            (key, number, chance.choice(("a", "b", "skip")), chance.choice(("ok", "late", "gone")))
            for key in chance.sample(range(30), 12)
        ]
        # Of one key two rows in a file: the later one counts.
        feed.land(number, [*rows, (100, number, "first", "ok"), (100, number, "second", "new")])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_that_the_sql_makes_of_the_files(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = feed_of(tmp_path, spark, kind, transform=TRANSFORM, delete_when="status = 'gone'")
    history(feed)
    feed.drain()
    clean = verified(feed)
    assert clean.found.is_equal, clean.found.first
    assert (clean.found.undecided, clean.found.unknown) == (0, 0)
    rows = feed.rows("id", "ts", "v", "status")
    assert clean.found.equal == len(rows)
    assert [row for row in rows if row[0] == 100] == [(100, 7, "SECOND-0", "new")]

    changed, deleted = rows[0], rows[1]
    names = [item.name for item in LANDED]
    # As the file has it, and not as the SQL makes it.
    feed.lake().upsert([dict(zip(names, (changed[0], changed[1], "a", changed[3]), strict=True))])
    feed.lake().delete(f"id = {deleted[0]}")
    faulty = verified(feed)
    assert named(faulty) == {(Kind.DIFFERENT, str(changed[0])), (Kind.MISSING, str(deleted[0]))}


def test_text_files_have_the_types_that_the_first_ones_were_read_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Later files look like numbers, and are the texts that they were at first."""
    feed = feed_of(
        tmp_path,
        spark,
        declared={"file_format": FileFormat.CSV},
        transform="select cast(id as bigint) id, cast(ts as bigint) ts,"
        " concat('<', v, '>') v, status, _tideline_sequence from source",
    )
    feed.land(1, [(1, 1, "0a", "ok"), (2, 1, "7.50", "ok")])
    feed.drain()
    feed.land(2, [(3, 2, "0100", "ok"), (4, 2, "1.20", "ok")])
    feed.drain()
    clean = verified(feed)
    assert clean.found.is_equal, clean.found.first
    assert {row[0] for row in feed.rows("v")} == {"<0a>", "<7.50>", "<0100>", "<1.20>"}
    feed.lake().delete("id = 3")
    assert named(verified(feed)) == {(Kind.MISSING, "3")}


def test_rows_without_their_order_are_decided_by_the_ordering_or_by_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    for ordering, undecided in (((), 2), (("ts",), 1)):
        folder = tmp_path / f"ordered-{len(ordering)}"
        folder.mkdir()
        query = "select id, ts, lower(v) v, status from source"
        feed = feed_of(folder, spark, transform=query, ordering=ordering)
        feed.land(1, [(n, 1, "A", "ok") for n in range(5)])
        # Of key 2 two rows are as high as each other; of key 1 the ordering says which one stays.
        feed.land(2, [(1, 3, "B", "ok"), (1, 2, "C", "ok"), (2, 4, "D", "ok"), (2, 4, "E", "ok")])
        feed.drain()
        found = verified(feed).found
        assert (found.is_equal, found.undecided) == (True, undecided)
        feed.lake().delete("id = 4")
        assert named(verified(feed)) == {(Kind.MISSING, "4")}


def test_sql_that_makes_other_rows_in_another_commit_is_refused_with_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = feed_of(tmp_path, spark, transform="select * from source limit 2")
    feed.land(1, [(1, 1, "a", "ok")])
    feed.drain()
    with pytest.raises(ConfigError) as refused:
        verified(feed)
    message = refused.value.message
    assert "the SQL of ingest landing makes other rows in another commit: limit is over" in message
    assert "write what it does for each row alone" in message
    # A condition for deletes is SQL as well.
    feed = replace(feed, transform=None, delete_when="rand() < 0.5")
    with pytest.raises(ConfigError, match=r"rand\(\) is another value each time"):
        verified(feed)
