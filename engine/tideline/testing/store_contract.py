"""What every object store must do, as one pytest suite.

A test module subclasses `StoreContract` and overrides the fixture `location` with an empty place of
its own. The same tests then run against every store.
"""

from __future__ import annotations

import io
import pickle
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from tideline.clock import SystemClock
from tideline.errors import InvalidDataError, ObjectNotFoundError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written
from tideline.storage.probe.run import probe_conditional_writes

_T = TypeVar("_T")

AWKWARD_PATHS = (
    "plain",
    ".hoodie/.hidden",
    "day=2024-01-01/file.parquet",
    "ünïcödé/日本語/😀.parquet",
    "with space/and  two",
    "per%cent/a%20b%2Fc",
    "hash#tag/why?a=1&b=2+c",
    "br{ace}[s]/(p)~^`|'\"<>*;:@$!,=",
    "back\\slash",
    "...",
    "a" * 200 + "/" + "b" * 200,
)
REFUSED_PATHS = (
    *("", "/lead", "trail/", "a//b", ".", "..", "a/../b", "./a"),
    *("a\nb", "nul\0", "not\udcffutf8", "x/.tmp-1"),
)


class StoreContract:
    """Subclass as `Test...` and override `location`."""

    not_kept: frozenset[str] = frozenset()
    """Of the awkward paths those that the store cannot hold, and refuses."""
    shows_emptied_folders = False
    """Whether listings of one level show a folder for a while after its last object was deleted."""

    @pytest.fixture
    def location(self) -> StoreLocation:
        raise NotImplementedError

    @pytest.fixture
    def store(self, location: StoreLocation) -> ObjectStore:
        return location.open()

    # Bodies

    def test_reads_back_what_was_put(self, store: ObjectStore) -> None:
        body = bytes(range(256)) * 1000
        store.put("a/b/c", body)
        assert store.get("a/b/c") == body
        assert store.get_versioned("a/b/c").body == body

    def test_an_empty_body_is_an_object(self, store: ObjectStore) -> None:
        store.put("a/empty", b"")
        assert store.get("a/empty") == b""
        found = store.head("a/empty")
        assert found is not None
        assert found.size_bytes == 0
        assert [info.path for info in store.list("a")] == ["a/empty"]

    def test_put_replaces_the_body(self, store: ObjectStore) -> None:
        first = store.put("x", b"first")
        second = store.put("x", b"second, longer")
        assert store.get("x") == b"second, longer"
        assert first.version != second.version
        assert store.get_versioned("x").version == second.version

    def test_a_missing_object_is_not_found(self, store: ObjectStore) -> None:
        store.put("a/b", b"x")
        for path in ("missing", "a", "a/c", "a/b/c"):
            assert store.head(path) is None
            with pytest.raises(ObjectNotFoundError, match=path):
                store.get(path)
            with pytest.raises(ObjectNotFoundError):
                store.get_versioned(path)
            with pytest.raises(ObjectNotFoundError):
                store.get_range(path, offset=0, length=1)
            with pytest.raises(ObjectNotFoundError):
                store.open_reader(path)

    def test_head_gives_size_and_time(self, store: ObjectStore) -> None:
        before_ms = SystemClock().now_ms()
        store.put("a/b", b"12345")
        found = store.head("a/b")
        assert found is not None
        assert (found.path, found.size_bytes) == ("a/b", 5)
        # S3 counts whole seconds here.
        assert before_ms - 2000 <= found.modified_ms <= SystemClock().now_ms() + 2000

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [(0, 3, b"012"), (4, 2, b"45"), (8, 10, b"89"), (10, 5, b""), (99, 1, b""), (3, 0, b"")],
    )
    def test_a_range_ends_with_the_object(
        self, store: ObjectStore, offset: int, length: int, expected: bytes
    ) -> None:
        store.put("x", b"0123456789")
        assert store.get_range("x", offset=offset, length=length) == expected

    def test_a_range_of_an_empty_object_is_empty(self, store: ObjectStore) -> None:
        store.put("x", b"")
        assert store.get_range("x", offset=0, length=4) == b""

    # Conditional writes

    def test_put_if_absent_creates_only_once(self, store: ObjectStore) -> None:
        first = store.put_if_absent("t/1.requested", b"mine")
        assert isinstance(first, Written)
        assert store.put_if_absent("t/1.requested", b"theirs") == AlreadyExists()
        assert store.put_if_absent("t/1.requested", b"mine") == AlreadyExists()
        assert store.get_versioned("t/1.requested").body == b"mine"
        assert store.get_versioned("t/1.requested").version == first.version

    def test_put_if_absent_again_with_the_same_token_is_our_own_write(
        self, store: ObjectStore
    ) -> None:
        token = secrets.token_hex(16)
        body = f'{{"attempt":"{token}"}}'.encode()
        first = store.put_if_absent("commit", body, token=token)
        assert store.put_if_absent("commit", body, token=token) == first

    def test_put_if_absent_with_another_token_lost(self, store: ObjectStore) -> None:
        store.put_if_absent("commit", b"of A", token="A")
        assert store.put_if_absent("commit", b"of B", token="B") == AlreadyExists()
        assert store.put_if_absent("empty", b"", token="A") != AlreadyExists()
        assert store.put_if_absent("empty", b"", token="B") == AlreadyExists()
        assert store.get("commit") == b"of A"

    def test_an_object_without_a_token_is_never_taken_for_ours(self, store: ObjectStore) -> None:
        store.put("x", b"")
        assert store.put_if_absent("x", b"", token="T") == AlreadyExists()

    def test_put_if_absent_works_again_after_a_delete(self, store: ObjectStore) -> None:
        store.put_if_absent("x", b"1")
        store.delete("x")
        assert isinstance(store.put_if_absent("x", b"2"), Written)

    def test_put_if_match_replaces_only_the_version_it_names(self, store: ObjectStore) -> None:
        first = store.put("lock", b"1")
        second = store.put_if_match("lock", b"2", version=first.version)
        assert isinstance(second, Written)
        assert store.put_if_match("lock", b"3", version=first.version) == Changed()
        assert store.get("lock") == b"2"
        current = store.get_versioned("lock")
        assert isinstance(store.put_if_match("lock", b"4", version=current.version), Written)
        assert store.get("lock") == b"4"

    def test_put_if_match_on_a_missing_object_changes_nothing(self, store: ObjectStore) -> None:
        version = store.put("x", b"1").version
        store.delete("x")
        assert store.put_if_match("x", b"2", version=version) == Changed()
        assert store.head("x") is None

    def test_of_many_creators_exactly_one_wins(self, store: ObjectStore) -> None:
        for round_number in range(5):
            path = f"race/{round_number}"

            def create(number: int, path: str = path) -> bool:
                body = f"writer {number}".encode()
                return isinstance(store.put_if_absent(path, body, token=f"w{number}-"), Written)

            wins = in_parallel(create, 8)
            assert sum(wins) == 1
            assert store.get(path) == f"writer {wins.index(True)}".encode()

    def test_compare_and_swap_loses_no_increment(self, store: ObjectStore) -> None:
        store.put("counter", b"0")

        def count_to_five(_: int) -> None:
            done = 0
            while done < 5:
                current = store.get_versioned("counter")
                body = str(int(current.body) + 1).encode()
                result = store.put_if_match("counter", body, version=current.version)
                done += isinstance(result, Written)

        in_parallel(count_to_five, 6)
        assert store.get("counter") == b"30"

    def test_readers_never_see_half_a_body(self, store: ObjectStore) -> None:
        size = 100_000
        store.put("x", b"A" * size)
        stop = threading.Event()
        seen: set[tuple[int, int]] = set()

        def read(_: int) -> None:
            while True:
                body = store.get("x")
                seen.add((len(body), len(set(body))))
                if stop.is_set():
                    return

        def write(_: int) -> None:
            for number in range(20):
                store.put("x", (b"B" if number % 2 else b"A") * size)
            stop.set()

        in_parallel(lambda number: (write if number == 0 else read)(number), 3)
        assert seen == {(size, 1)}

    def test_the_probe_finds_conditional_writes_honoured(self, store: ObjectStore) -> None:
        probe_conditional_writes(store)
        assert [*store.list()] == []

    # Listings

    def test_list_goes_to_any_depth_and_keeps_to_its_directory(self, store: ObjectStore) -> None:
        for path in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "5"):
            store.put(path, path.encode())
        assert sorted(info.path for info in store.list("a")) == ["a/1", "a/b/2", "a/b/c/3"]
        assert sorted(info.path for info in store.list("a/")) == ["a/1", "a/b/2", "a/b/c/3"]
        assert {info.path: info.size_bytes for info in store.list()} == {
            path: len(path) for path in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "5")
        }
        assert [*store.list("missing")] == []
        assert [*store.list("5")] == []

    def test_list_after_shows_what_sorts_after_a_path(self, store: ObjectStore) -> None:
        for name in ("B", "a-b", "a.csv", "a/1", "a/b/2", "a/b/c/3", "a0", "b", "é", "日", "😀"):
            store.put(name, b"x")
        paths = sorted(info.path for info in store.list())
        for after in ("", "A", "a", "a/b", "a/b/c", "a/b/c/3", "a/z", "b", "é", "😀", "😁"):
            found = sorted(info.path for info in store.list_after(after))
            assert found == [path for path in paths if path > after], after
        assert {info.size_bytes for info in store.list_after("b")} == {1}

    def test_list_after_of_nothing_is_empty(self, store: ObjectStore) -> None:
        assert [*store.list_after("")] == []
        assert [*store.list_after("x")] == []

    def test_list_directory_is_one_level(self, store: ObjectStore) -> None:
        for path in ("a/1", "a/2", "a/b/3", "a/b/c/4", "ab/5", "6"):
            store.put(path, b"x")
        level = store.list_directory("a")
        assert [info.path for info in level.objects] == ["a/1", "a/2"]
        assert level.directories == ("a/b",)
        root = store.list_directory()
        assert [info.path for info in root.objects] == ["6"]
        assert root.directories == ("a", "ab")
        assert store.list_directory("missing").objects == ()
        assert store.list_directory("missing").directories == ()

    def test_a_listing_sees_the_write_before_it(self, store: ObjectStore) -> None:
        for number in range(10):
            store.put(f"seq/{number}", b"")
            assert len(store.list_directory("seq").objects) == number + 1

    def test_long_listings_are_complete_and_can_be_removed_whole(self, store: ObjectStore) -> None:
        paths = [f"many/{number:04}" for number in range(1100)]
        in_parallel(lambda number: store.put(paths[number], b""), len(paths))
        store.put("many-more", b"x")
        assert sorted(info.path for info in store.list("many")) == paths
        assert len(store.list_directory("many").objects) == len(paths)
        store.delete_prefix("many")
        assert [info.path for info in store.list()] == ["many-more"]

    # Removal

    def test_delete_of_a_missing_object_is_fine(self, store: ObjectStore) -> None:
        store.put("a/b", b"x")
        store.delete("a/b")
        store.delete("a/b")
        store.delete("never/was")
        assert store.head("a/b") is None

    def test_delete_many_removes_what_is_there(self, store: ObjectStore) -> None:
        for path in ("d/1", "d/2", "d/3"):
            store.put(path, b"x")
        store.delete_many(path for path in ("d/1", "d/missing", "d/3"))
        store.delete_many([])
        assert [info.path for info in store.list("d")] == ["d/2"]

    def test_delete_prefix_spares_its_neighbours(self, store: ObjectStore) -> None:
        for path in ("p/1", "p/q/2", "pq/3"):
            store.put(path, b"x")
        store.delete_prefix("p")
        store.delete_prefix("missing")
        assert [info.path for info in store.list()] == ["pq/3"]
        emptied = ("p",) if self.shows_emptied_folders else ()
        assert store.list_directory().directories == (*emptied, "pq")
        assert store.list_directory("p").objects == ()
        store.delete_prefix("")
        assert [*store.list()] == []

    # Names

    @pytest.mark.parametrize("path", AWKWARD_PATHS, ids=range(len(AWKWARD_PATHS)))
    def test_any_name_works(self, store: ObjectStore, path: str) -> None:
        body = path.encode()
        if path in self.not_kept:
            with pytest.raises(InvalidDataError):
                store.put_if_absent(path, body)
            return
        created = store.put_if_absent(path, body)
        assert isinstance(created, Written)
        assert store.put_if_absent(path, b"") == AlreadyExists()
        assert isinstance(store.put_if_match(path, body, version=created.version), Written)
        assert store.get(path) == body
        assert store.get_range(path, offset=1, length=2) == body[1:3]
        found = store.head(path)
        assert found is not None
        assert found.path == path
        assert [info.path for info in store.list()] == [path]
        directory = path.rpartition("/")[0]
        assert [info.path for info in store.list_directory(directory).objects] == [path]
        with store.open_reader(path) as reader:
            assert reader.read() == body
        store.delete(path)
        assert store.head(path) is None
        with store.open_writer(path) as writer:
            writer.write(body)
        assert store.get(path) == body
        store.delete_prefix(directory)
        assert [*store.list()] == []

    @pytest.mark.parametrize("path", REFUSED_PATHS, ids=range(len(REFUSED_PATHS)))
    def test_names_that_no_store_can_hold_are_refused(self, store: ObjectStore, path: str) -> None:
        with pytest.raises(InvalidDataError):
            store.put(path, b"x")
        with pytest.raises(InvalidDataError):
            store.get(path)
        with pytest.raises(InvalidDataError):
            store.delete(path)
        with pytest.raises(InvalidDataError):
            store.open_writer(path)

    # Streams

    def test_a_reader_seeks(self, store: ObjectStore) -> None:
        body = secrets.token_bytes(3_000_000)
        store.put("big", body)
        with store.open_reader("big") as reader:
            assert reader.seekable()
            assert reader.read(10) == body[:10]
            assert reader.seek(-8, io.SEEK_END) == len(body) - 8
            assert reader.read() == body[-8:]
            assert reader.read(1) == b""
            reader.seek(1_500_000)
            assert reader.read(1_400_000) == body[1_500_000:2_900_000]
            assert reader.tell() == 2_900_000
            reader.seek(0)
            assert reader.read() == body

    def test_a_large_object_streams_through_a_writer(self, store: ObjectStore) -> None:
        chunks = [secrets.token_bytes(1_000_003) for _ in range(20)]
        with store.open_writer("part/large.parquet") as writer:
            for chunk in chunks:
                writer.write(chunk)
            assert writer.tell() == 20 * 1_000_003
        assert store.get("part/large.parquet") == b"".join(chunks)

    def test_a_writer_may_write_nothing(self, store: ObjectStore) -> None:
        with store.open_writer("empty"):
            pass
        assert store.get("empty") == b""

    @pytest.mark.parametrize("size", [10, 20_000_000])
    def test_a_failed_block_leaves_no_object(self, store: ObjectStore, size: int) -> None:
        with pytest.raises(KeyError, match="user's own"), store.open_writer("p/broken") as writer:
            writer.write(b"x" * size)
            raise KeyError("user's own")
        assert store.head("p/broken") is None
        assert [*store.list()] == []

    def test_closing_the_stream_early_is_harmless(self, store: ObjectStore) -> None:
        with store.open_writer("early") as writer:
            writer.write(b"done")
            writer.close()
        assert store.get("early") == b"done"

    def test_parquet_goes_through_the_streams(self, store: ObjectStore) -> None:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pa.table({"id": list(range(50_000)), "name": [f"n{i}" for i in range(50_000)]})
        with store.open_writer("t.parquet") as sink:
            parquet.write_table(table, sink, row_group_size=10_000)
        with store.open_reader("t.parquet") as source:
            assert parquet.read_table(source, columns=["name"]) == table.select(["name"])

    # Values

    def test_a_location_survives_pickling(self, location: StoreLocation) -> None:
        location.open().put("x", b"1")
        assert pickle.loads(pickle.dumps(location)) == location
        assert pickle.loads(pickle.dumps(location)).open().get("x") == b"1"
        child = location.child("sub/dir")
        child.open().put("y", b"2")
        assert location.open().get("sub/dir/y") == b"2"
        assert [info.path for info in child.open().list()] == ["y"]

    def test_an_open_store_survives_pickling(self, store: ObjectStore) -> None:
        store.put("x", b"1")
        assert pickle.loads(pickle.dumps(store)).get("x") == b"1"


def in_parallel(action: Callable[[int], _T], count: int) -> tuple[_T, ...]:
    """Run `action(0)` ... `action(count - 1)` in threads, up to eight at once."""
    with ThreadPoolExecutor(min(count, 8)) as pool:
        return tuple(pool.map(action, range(count)))
