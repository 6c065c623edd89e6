"""Changes of several tables of a REST catalog as one commit: all of them or none, whatever becomes
of the request."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import tideline
from tideline.clock import Clock, SystemClock
from tideline.errors import (
    ConfigError,
    ConflictError,
    StorageUnavailableError,
    UnknownOutcomeError,
    UnsupportedTableError,
)
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import Answer, Received
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer
from tideline.testing.one_at_a_time import one_at_a_time

pytest.importorskip("pyiceberg")

from tideline.testing.served_catalog import TRANSACTIONS, ServedCatalog, refusal

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
NAMES = ("shop.orders", "shop.lines")
CLOCK = FakeClock()


@pytest.fixture
def catalog() -> Iterator[ServedCatalog]:
    with ServedCatalog() as catalog:
        catalog.commits_together = True
        yield catalog


def made(catalog: ServedCatalog, *names: str, clock: Clock = CLOCK) -> list[IcebergLakeTable]:
    return [
        tideline.create_iceberg(name, COLUMNS, key="id", catalog=catalog.url, clock=clock)
        for name in names or NAMES
    ]


def rows(*ids: int, n: int = 0) -> list[dict[str, int]]:
    return [{"id": number, "n": n} for number in ids]


def ids(catalog: ServedCatalog, *names: str) -> list[list[int]]:
    """Of each table, as another process sees it."""
    found = [tideline.open_iceberg(name, catalog=catalog.url) for name in names or NAMES]
    return [sorted(table.to_arrow()["id"].to_pylist()) for table in found]


def requests(catalog: ServedCatalog) -> int:
    return sum(asked.path.endswith(TRANSACTIONS) for asked in catalog.received)


def commits(catalog: ServedCatalog) -> int:
    return sum(asked.kind == "commit" for asked in catalog.received)


def meeting(catalog: ServedCatalog, answer: Answer, *, is_done: bool) -> None:
    """Commits of several tables are answered so, after they were done or instead."""

    def reply(request: Received) -> Answer:
        if not request.path.endswith(TRANSACTIONS):
            return catalog.honest(request)
        if is_done:
            catalog.honest(request)
        return answer

    catalog.reply = reply


def test_a_block_is_one_commit(catalog: ServedCatalog) -> None:
    orders, lines = made(catalog)
    with tideline.commit_together(orders, lines, clock=CLOCK):
        orders.append(rows(1, 2))
        lines.write(rows(10, 11, 12), "upsert")
        assert orders.count() == 2, "the block sees what it does"
        assert ids(catalog) == [[], []]
    assert ids(catalog) == [[1, 2], [10, 11, 12]]
    assert (requests(catalog), commits(catalog)) == (1, 0)
    assert orders.current_snapshot == catalog.tables[NAMES[0]].metadata.snapshot()
    with tideline.commit_together(orders, lines, clock=CLOCK):
        orders.delete("id = 1")
        with lines.alter() as change:
            change.rename_column("n", "m")
    assert ids(catalog) == [[2], [10, 11, 12]]
    assert lines.schema.names == ["id", "m"]
    orders.append(rows(3))
    assert ids(catalog) == [[2, 3], [10, 11, 12]]
    assert not orders.check() and not lines.check()


def test_a_block_that_fails_or_does_nothing_commits_nothing(catalog: ServedCatalog) -> None:
    orders, lines = made(catalog)
    with pytest.raises(ZeroDivisionError), tideline.commit_together(orders, lines, clock=CLOCK):
        orders.append(rows(1))
        raise ZeroDivisionError
    assert orders.count() == 0 and orders.current_snapshot is None
    with tideline.commit_together(orders, lines, clock=CLOCK):
        assert lines.count() == 0
    assert requests(catalog) == commits(catalog) == 0
    orders.append(rows(1))
    assert ids(catalog) == [[1], []]


def test_where_another_writer_is_first_none_is_changed(catalog: ServedCatalog) -> None:
    orders, lines = made(catalog)
    other = tideline.open_iceberg(NAMES[1], catalog=catalog.url)
    with (
        pytest.raises(ConflictError, match="none of the tables was changed"),
        tideline.commit_together(orders, lines, clock=CLOCK),
    ):
        orders.append(rows(1))
        lines.append(rows(10))
        other.append(rows(11))
    assert ids(catalog) == [[], [11]]
    with tideline.commit_together(orders, lines, clock=CLOCK):
        orders.append(rows(1))
        lines.append(rows(10))
    assert ids(catalog) == [[1], [10, 11]]


@pytest.mark.parametrize("answer", [refusal(500, "X"), refusal(502, "X"), Answer(lost=True)])
@pytest.mark.parametrize("is_done", [True, False])
def test_an_answer_that_says_nothing_is_settled(
    catalog: ServedCatalog, answer: Answer, is_done: bool
) -> None:
    orders, lines = made(catalog)
    meeting(catalog, answer, is_done=is_done)

    def work() -> None:
        with tideline.commit_together(orders, lines, clock=CLOCK):
            orders.write(rows(1), token="a")
            lines.write(rows(10), token="b")

    if is_done:
        work()
    else:
        with pytest.raises(UnknownOutcomeError, match="repeat writes with the tokens"):
            work()
    catalog.reply = catalog.honest
    work()
    assert ids(catalog) == [[1], [10]], "with their tokens they are written once"


def test_a_refusal_is_none_of_the_changes(catalog: ServedCatalog) -> None:
    orders, lines = made(catalog)
    for answer, error, words in (
        (refusal(400, "X"), UnsupportedTableError, "rejects the changes"),
        (refusal(403, "X"), StorageUnavailableError, "denies access"),
        (refusal(429, "X"), StorageUnavailableError, "did not take place"),
        (refusal(501, "X"), UnsupportedTableError, "rejects the changes"),
    ):
        meeting(catalog, answer, is_done=False)
        with (
            pytest.raises(error, match=words),
            tideline.commit_together(orders, lines, clock=CLOCK),
        ):
            orders.append(rows(1))
            lines.append(rows(10))
    assert ids(catalog) == [[], []]


def test_a_server_that_commits_by_halves_is_named(catalog: ServedCatalog) -> None:
    orders, lines = made(catalog)

    def reply(request: Received) -> Answer:
        if not request.path.endswith(TRANSACTIONS):
            return catalog.honest(request)
        kept = catalog.tables[NAMES[1]]
        catalog.honest(request)
        catalog.tables[NAMES[1]] = kept
        return refusal(500, "X")

    catalog.reply = reply
    with (
        pytest.raises(UnknownOutcomeError, match=r"committed shop\.orders and not the others"),
        tideline.commit_together(orders, lines, clock=CLOCK),
    ):
        orders.append(rows(1))
        lines.append(rows(10))


def test_what_cannot_be_committed_together_is_refused(
    catalog: ServedCatalog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    orders, lines = (table.refresh() for table in made(catalog, clock=SystemClock()))
    orders.append(rows(1))
    orders.append(rows(2))
    with (
        pytest.raises(ConfigError, match="of each table one change"),
        tideline.commit_together(orders, lines, clock=CLOCK),
    ):
        orders.append(rows(3))
        orders.append(rows(4))
    with (
        pytest.raises(ConfigError, match="what ends snapshots is committed on its own"),
        tideline.commit_together(orders, lines, clock=CLOCK),
    ):
        orders.run("expire_snapshots", options={"older_than_age_ms": "0", "retain_last": "1"})
    assert len(orders.refresh().snapshots) == 2
    with pytest.raises(ConfigError, match="two tables or more"):
        tideline.commit_together(orders, orders).__enter__()
    folder = tideline.create_iceberg(str(tmp_path_factory.mktemp("t") / "t"), COLUMNS)
    with pytest.raises(ConfigError, match="a REST catalog that keeps all of them"):
        tideline.commit_together(orders, folder).__enter__()
    with ServedCatalog() as other:
        other.commits_together = True
        (foreign,) = made(other, "shop.other")
        with pytest.raises(ConfigError, match="tables of different catalogs"):
            tideline.commit_together(orders, foreign).__enter__()
    with ServedCatalog() as older:
        tables = made(older)
        with pytest.raises(UnsupportedTableError, match="does not list POST"):
            tideline.commit_together(*tables).__enter__()
        assert older.received[-1].kind != "commit"


@pytest.mark.interop
@pytest.mark.usefixtures("catalogs_name_folders")
def test_icebergs_own_catalog_commits_together(
    iceberg_rest_server: IcebergRestServer, iceberg_peer: IcebergPeer
) -> None:
    lost = iter((False, True))
    with one_at_a_time(
        iceberg_rest_server.uri, lambda _, path: path.endswith(TRANSACTIONS) and next(lost)
    ) as uri:
        tables = [
            tideline.create_iceberg(f"together.{name}", COLUMNS, key="id", catalog=uri)
            for name in ("orders", "lines")
        ]
        for number in (1, 2):
            with tideline.commit_together(*tables):
                for table in tables:
                    table.append(rows(number))
    assert [sorted(table.to_arrow()["id"].to_pylist()) for table in tables] == [[1, 2], [1, 2]]
    iceberg_peer.add_catalog("together", {"type": "rest", "uri": iceberg_rest_server.uri})
    for name in ("orders", "lines"):
        found = iceberg_peer.sql(f"select id from together.together.{name} order by id")
        assert found["id"].to_pylist() == [1, 2]
