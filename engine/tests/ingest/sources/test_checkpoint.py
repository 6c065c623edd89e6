"""The checkpoint: no file is lost or repeated, in any order of arrival or of deaths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.sources.checkpoint import (
    CHECKPOINT_PREFIX,
    INGEST_KEY,
    Checkpoint,
    checkpoint_metadata,
    read_checkpoints,
)
from tideline.ingest.sources.files.arrived import Arrival, ArrivedFile
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.position import FLOOR_DISTANCE_MS, NAMES_OVERLAP, FilesPosition
from tideline.ingest.sources.source import Limits, Nothing
from tideline.testing.file_ingests import checkpoint_after

NOW_MS = 2_000_000_000_000


def landed(path: str, modified_ms: int, size_bytes: int = 10) -> ArrivedFile:
    return ArrivedFile(path, size_bytes, modified_ms)


def landing_of(*files: ArrivedFile, quarantined: tuple[ArrivedFile, ...] = ()) -> FileListing:
    return FileListing(tuple(sorted(files, key=lambda file: file.arrival)), quarantined)


def files_in(checkpoint: Checkpoint) -> FilesPosition:
    assert isinstance(checkpoint.position, FilesPosition)
    return checkpoint.position


def late(checkpoint: Checkpoint, landing: FileListing) -> int:
    return landing.backlog(checkpoint.position, Limits(1, NOW_MS)).late


@dataclass
class Table:
    """Commits as a table holds them: files taken in, and the checkpoint they carry."""

    taken_max: int
    commits: list[tuple[tuple[ArrivedFile, ...], Checkpoint]] = field(default_factory=list)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What a new process finds: only what was committed, as text."""
        if not self.commits:
            return None
        return Checkpoint.decode(self.commits[-1][1].encode(), name="landing")

    @property
    def ingested(self) -> list[str]:
        return [file.identity for files, _ in self.commits for file in files]

    def run(self, landing: FileListing, files_max: int, *, dies: str) -> None:
        """One run: plan, write, commit. It may die before the commit, or just after it."""
        before = self.checkpoint
        position = None if before is None else before.position
        planned = landing.plan(position, Limits(files_max, NOW_MS))
        if isinstance(planned, Nothing) or dies == "before":
            return
        files = planned.files
        after = checkpoint_after(self.checkpoint, landing, files, taken_max=self.taken_max)
        self.commits.append((files, after))


arrivals = st.lists(
    st.tuples(
        st.text("abcdef/", min_size=1, max_size=4),
        st.integers(0, 20).map(lambda step: step * (FLOOR_DISTANCE_MS // 4)),
        st.integers(1, 3),
    ),
    max_size=25,
)
steps = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from(["", "", "before", "after"])),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(arrivals, steps)
def test_every_file_goes_in_exactly_once_in_any_order_of_arrival_and_death(
    files: list[tuple[str, int, int]], runs: list[tuple[int, int, str]]
) -> None:
    table = Table(taken_max=10_000)
    waiting = [landed(path, at, size) for path, at, size in files]
    present: dict[str, ArrivedFile] = {}
    expected: set[str] = set()
    replaced: set[str] = set()
    for arriving, files_max, dies in runs:
        for file in waiting[:arriving]:
            if file.identity in replaced:
                # One that comes back as it was before it was replaced is taken in once more.
                continue
            if file.path in present and present[file.path] != file:
                replaced.add(present[file.path].identity)
            if file.path in present and present[file.path].identity not in table.ingested:
                expected.discard(present[file.path].identity)
            # A file that takes the place of another of its name is a new arrival.
            present[file.path] = file
            if file.identity not in table.ingested:
                expected.add(file.identity)
        waiting = waiting[arriving:]
        table.run(landing_of(*present.values()), files_max, dies=dies)
    while any(file.identity not in table.ingested for file in present.values()):
        before = len(table.commits)
        table.run(landing_of(*present.values()), 3, dies="")
        assert len(table.commits) > before, "files are left and none is taken in"
    current = {file.identity for file in present.values()}
    assert current <= set(table.ingested)
    taken = [identity for identity in table.ingested if identity in current]
    assert len(taken) == len(set(taken))


@settings(deadline=None)
@given(arrivals, steps, st.integers(1, 5))
def test_with_a_bounded_memory_a_file_is_taken_once_or_reported_late(
    files: list[tuple[str, int, int]], runs: list[tuple[int, int, str]], taken_max: int
) -> None:
    table = Table(taken_max=taken_max)
    present: dict[str, ArrivedFile] = {}
    waiting = [landed(f"{place}-{path}", at, size) for place, (path, at, size) in enumerate(files)]
    for arriving, files_max, dies in [*runs, *[(25, 25, "")] * 3]:
        present |= {file.path: file for file in waiting[:arriving]}
        waiting = waiting[arriving:]
        table.run(landing_of(*present.values()), files_max, dies=dies)
    assert len(table.ingested) == len(set(table.ingested))
    landing = landing_of(*present.values())
    missing = {file.identity for file in present.values()} - set(table.ingested)
    reported = late(table.checkpoint, landing) if table.checkpoint else 0
    assert reported == len(missing)


def test_files_that_arrive_in_order_are_never_late_however_small_the_memory() -> None:
    table = Table(taken_max=2)
    present: list[ArrivedFile] = []
    for hour in range(30):
        present.append(landed(f"f{hour:02}", hour * FLOOR_DISTANCE_MS))
        table.run(landing_of(*present), 1, dies="")
    assert table.ingested == [file.identity for file in present]
    assert table.checkpoint is not None
    assert len(files_in(table.checkpoint).taken) == 2
    assert files_in(table.checkpoint).settled == 28
    assert late(table.checkpoint, landing_of(*present)) == 0


def test_the_floor_stays_behind_the_watermark_and_below_files_that_wait() -> None:
    old = [landed(f"old{number}", number) for number in range(6)]
    waits = landed("waits", 3)
    fresh = landed("fresh", 2 * FLOOR_DISTANCE_MS)
    landing = landing_of(*old, waits, fresh)
    young = checkpoint_after(None, landing_of(*old), old, taken_max=1)
    assert files_in(young).floor is None, "all of them are younger than the distance"
    after = checkpoint_after(young, landing, [fresh], taken_max=1)
    assert files_in(after).floor == Arrival(3, "old3")
    assert not files_in(after).has_taken(waits)


def test_a_quarantined_file_does_not_hold_the_floor_and_is_late_once_released() -> None:
    old = [landed(f"old{number}", number) for number in range(4)]
    bad = landed("bad", 1)
    fresh = landed("fresh", 2 * FLOOR_DISTANCE_MS)
    held = landing_of(*old, fresh, quarantined=(bad,))
    first = checkpoint_after(None, held, old, taken_max=1)
    second = checkpoint_after(first, held, [fresh], taken_max=1)
    assert files_in(second).floor == Arrival(3, "old3")
    assert late(second, landing_of(*old, fresh, bad)) == 1


def test_what_left_the_landing_prefix_is_forgotten() -> None:
    first = checkpoint_after(None, landing_of(landed("a", 1), landed("b", 2)), [landed("a", 1)])
    left, third = [landed("b", 2)], landed("c", 3)
    second = checkpoint_after(first, landing_of(*left), left)
    assert files_in(second).missed == {landed("a", 1).identity}
    last = checkpoint_after(second, landing_of(*left, third), [third])
    assert files_in(last).taken == {file.identity for file in (*left, third)}
    assert last.generation == 3


def test_an_older_file_that_comes_later_leaves_the_watermark() -> None:
    new, old = landed("new", 5), landed("old", 1)
    first = checkpoint_after(None, landing_of(new), [new])
    second = checkpoint_after(first, landing_of(old, new), [old])
    assert files_in(second).watermark == new.arrival


def test_settled_files_that_left_hide_no_late_ones() -> None:
    old = [landed(f"old{number}", number) for number in range(4)]
    fresh, later = landed("fresh", 2 * FLOOR_DISTANCE_MS), landed("later", 3 * FLOOR_DISTANCE_MS)
    first = checkpoint_after(None, landing_of(*old, fresh), [*old, fresh], taken_max=1)
    second = checkpoint_after(first, landing_of(old[0], fresh, later), [later], taken_max=2)
    assert (files_in(first).settled, files_in(second).settled) == (4, 1)
    assert late(second, landing_of(old[0], fresh, later)) == 0
    assert late(second, landing_of(old[0], landed("late", 1), fresh, later)) == 1


def test_deleting_settled_files_makes_none_late() -> None:
    old = [landed(f"old{number}", number) for number in range(4)]
    fresh = landed("fresh", 2 * FLOOR_DISTANCE_MS)
    checkpoint = checkpoint_after(None, landing_of(*old, fresh), [*old, fresh], taken_max=1)
    assert files_in(checkpoint).settled == 4
    assert late(checkpoint, landing_of(fresh)) == 0


def at(generation: int, watermark: Arrival, *rest: Any, **fields: Any) -> Checkpoint:
    return Checkpoint(generation, FilesPosition(watermark, *rest, **fields))


@pytest.mark.parametrize(
    "checkpoint",
    [
        at(1, Arrival(5, "a b/ü.csv"), taken=frozenset({"00ff" * 4, "1234" * 4})),
        replace(at(7, Arrival(5, "z"), Arrival(3, "y"), 12), drained=2),
        replace(at(2, Arrival(1, "x")), columns=(("id", "bigint"), ("m", "map<s,i>"))),
    ],
)
def test_a_checkpoint_reads_what_it_writes(checkpoint: Checkpoint) -> None:
    assert Checkpoint.decode(checkpoint.encode(), name="landing") == checkpoint


def test_the_text_of_a_checkpoint_of_files_is_that_of_the_first_release() -> None:
    checkpoint = replace(
        at(3, Arrival(5, "b.csv"), Arrival(3, "a.csv"), 2, frozenset({"00ff" * 4})),
        columns=(("id", "bigint"),),
        address="../landing",
        took_over="old",
        look_after="a",
    )
    assert checkpoint.encode() == (
        '{"version":1,"generation":3,"watermark":[5,"b.csv"],"floor":[3,"a.csv"],"settled":2,'
        '"taken":"AP8A/wD/AP8=","drained":null,"columns":[["id","bigint"]],"prefix":"../landing",'
        '"tookOver":"old","namesFrom":"a"}'
    )


@pytest.mark.parametrize(
    "text",
    ["", "null", "{}", '{"version":2}', at(1, Arrival(1, "a"))
     .encode().replace('"taken":""', '"taken":"AAAA"')],
)  # fmt: skip
def test_a_damaged_checkpoint_names_ingest_and_instant(text: str) -> None:
    with pytest.raises(CorruptTableError, match=r"ingest .landing.*instant=20260101000000000"):
        Checkpoint.decode(text, name="landing", instant="20260101000000000")


def committed(day: int) -> Instant:
    return Instant(InstantTime.parse(f"202601{day:02}000000000"), Action.COMMIT, State.COMPLETED)


def simple(generation: int) -> Checkpoint:
    return at(generation, Arrival(generation, "f"))


def read(commits: Mapping[int, Mapping[str, str]], *names: str) -> dict[str, int]:
    timeline = ActiveTimeline(tuple(committed(day) for day in commits))
    said = {committed(day): extra for day, extra in commits.items()}
    found = read_checkpoints(timeline, lambda instant: said[instant], names)
    return {name: checkpoint.generation for name, checkpoint in found.items()}


def own(name: str, **generations: int) -> dict[str, str]:
    carried = {key: simple(generation) for key, generation in generations.items()}
    return {**checkpoint_metadata(carried), INGEST_KEY: name}


def test_the_newest_commit_of_an_ingest_has_its_checkpoint() -> None:
    assert read({1: own("a", a=1), 2: own("a", a=2)}, "a") == {"a": 2}


def test_commits_of_other_writers_are_looked_past() -> None:
    assert read({1: own("a", a=1), 2: {}, 3: {"schema": "{}"}}, "a") == {"a": 1}


def test_a_checkpoint_that_is_only_carried_still_counts() -> None:
    carried = {CHECKPOINT_PREFIX + "a": simple(4).encode()}
    assert read({5: carried, 6: {}}, "a") == {"a": 4}


def test_an_older_copy_does_not_replace_a_newer_one_once_the_commit_itself_is_archived() -> None:
    assert read({5: own("b", b=1, a=4), 6: own("b", b=2, a=5)}, "a") == {"a": 5}
    assert read({5: own("b", b=1, a=5), 6: own("b", b=2, a=4)}, "a") == {"a": 5}


def test_a_copy_that_another_commit_overtook_does_not_hide_the_later_one() -> None:
    # b began before a's second commit was complete and carries a's first; its instant is later.
    commits = {1: own("a", a=1), 2: own("a", a=2), 3: own("b", a=1, b=1)}
    assert read(commits, "a", "b") == {"a": 2, "b": 1}


def test_an_ingest_that_began_alongside_another_is_found_behind_it() -> None:
    commits = {1: own("b", b=1), 2: own("a", a=1)}
    assert read(commits, "a", "b") == {"a": 1, "b": 1}


def test_an_ingest_that_never_committed_has_no_checkpoint() -> None:
    assert read({1: own("a", a=1)}, "b") == {}


def test_a_pending_commit_says_nothing() -> None:
    pending = replace(committed(2), state=State.INFLIGHT)
    timeline = ActiveTimeline((committed(1), pending))
    said = {committed(1): own("a", a=1)}
    found = read_checkpoints(timeline, lambda instant: said[instant], ["a"])
    assert found["a"].generation == 1


# Listings from a watermark.


def named(*numbers: int) -> tuple[ArrivedFile, ...]:
    return tuple(landed(f"{number:06}.csv", 1_000_000 + number) for number in numbers)


def after(path: str, *files: ArrivedFile) -> FileListing:
    return replace(landing_of(*(file for file in files if file.path > path)), after=path)


def test_a_look_from_the_watermark_drops_no_identity_and_keeps_the_floor() -> None:
    old, new = named(*range(10)), named(20, 21)
    first = checkpoint_after(None, landing_of(*old), old, taken_max=5)
    partial = after("000015.csv", *old, *new)
    second = checkpoint_after(first, partial, new, taken_max=5)
    assert files_in(second).taken == files_in(first).taken | {file.identity for file in new}
    assert (files_in(second).floor, files_in(second).settled) == (
        files_in(first).floor,
        files_in(first).settled,
    )
    left = (*old[5:], *new)
    third = checkpoint_after(second, landing_of(*left, *named(22)), named(22), taken_max=50)
    whole = landing_of(*left, *named(22, 23))
    fourth = checkpoint_after(third, whole, named(23), taken_max=50)
    present = {file.identity for file in whole.files}
    assert files_in(fourth).taken == present, "whole listings show what has left"


def test_names_are_listed_from_a_page_before_the_newest_and_from_all_that_wait() -> None:
    few = named(*range(NAMES_OVERLAP))
    assert checkpoint_after(None, landing_of(*few), few).look_after == ""
    many = named(*range(2_000))
    first = checkpoint_after(None, landing_of(*many), many)
    assert first.look_after == f"{2_000 - NAMES_OVERLAP - 1:06}.csv"
    more = named(*range(2_000, 2_010))
    second = checkpoint_after(first, after(first.look_after, *many, *more), more)
    assert second.look_after == f"{2_010 - NAMES_OVERLAP - 1:06}.csv"
    late = landed("000000-late.csv", 5_000_000)
    third = checkpoint_after(second, landing_of(*many, *more, late, *named(3_000)), named(3_000))
    assert third.look_after == "", "a file that waits is listed until it is taken in"
    fourth = checkpoint_after(third, landing_of(*many, *more, late, *named(3_000)), [late])
    assert fourth.look_after > second.look_after
    assert Checkpoint.decode(fourth.encode(), name="x") == fourth


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_listed_no_file_is_lost_or_repeated(data: st.DataObject) -> None:
    """Files that arrive in almost the order of their names, looks from the watermark, deaths."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tideline.ingest.sources.files.listing.NAMES_OVERLAP", 3)
        table = Table(taken_max=8)
        files: list[ArrivedFile] = []
        names = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True))
        for turn, name in enumerate(names):
            files.append(landed(f"{name:03}", 1_000 * FLOOR_DISTANCE_MS * turn + name))
            is_full = data.draw(st.booleans())
            checkpoint = table.checkpoint
            start = "" if is_full or checkpoint is None else checkpoint.look_after
            listing = after(start, *files)
            table.run(listing, 3, dies=data.draw(st.sampled_from(["never", "before", "after"])))
        while (batch_is_left := len(table.ingested)) < len(files):
            table.run(landing_of(*files), 100, dies="never")
            assert len(table.ingested) > batch_is_left
        assert sorted(table.ingested) == sorted(file.identity for file in files)
