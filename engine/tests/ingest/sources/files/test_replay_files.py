"""Which files of a landing prefix a table has taken in, by what its commits say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tideline.ingest.location import Location
from tideline.ingest.sources.files.arrived import ArrivedFile, FileRange
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileFormat, FileListing, files_of
from tideline.ingest.sources.files.position import FLOOR_DISTANCE_MS, FilesPosition
from tideline.ingest.sources.files.replay import replay_files
from tideline.ingest.sources.replay import Replay, TakenIn

DECLARED = DeclaredFiles(Location("file:///landing"), FileFormat.PARQUET)


def file(name: str, hours: float, size_bytes: int = 10) -> ArrivedFile:
    return ArrivedFile(name, size_bytes, int(hours * FLOOR_DISTANCE_MS))


@dataclass
class Landing:
    """What is there, and the commits that took it in."""

    files: dict[str, ArrivedFile] = field(default_factory=dict)
    commits: list[TakenIn] = field(default_factory=list)

    def put(self, *files: ArrivedFile) -> None:
        self.files |= {item.path: item for item in files}

    @property
    def listing(self) -> FileListing:
        return FileListing(tuple(sorted(self.files.values(), key=lambda item: item.arrival)))

    @property
    def position(self) -> FilesPosition:
        found = self.commits[-1].position
        assert isinstance(found, FilesPosition)
        return found

    def take(self, *names: str, named: int | None = None, taken_max: int = 100) -> None:
        """A commit of these files, which names that many of them."""
        before = self.position if self.commits else None
        taken = FileRange(tuple(self.files[name] for name in names))
        position = self.listing.advance(before, taken, taken_max=taken_max)
        number = len(self.commits) + 1
        commit = TakenIn(f"{number:03d}", number, position, names[:named], named is not None)
        self.commits.append(commit)

    def replay(self, newest: int | None = None) -> Replay:
        """By so many commits, the others are not known any more."""

        def history() -> Iterator[TakenIn]:
            return iter(self.commits[::-1][:newest])

        found = replay_files(DECLARED, self.listing, self.position, history)
        assert isinstance(found, Replay)
        return found


def ranges(found: Replay) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.instant, files_of(item.range).names) for item in found.ranges]


def filled(names: Iterable[str]) -> Landing:
    """A file an hour, each of its own commit."""
    landing = Landing()
    for number, name in enumerate(names, 1):
        landing.put(file(name, number))
        landing.take(name)
    return landing


def test_files_are_of_the_commits_that_took_them_in() -> None:
    landing = filled("ab")
    landing.put(file("late", 0), file("z", 9))
    landing.take("late")
    found = landing.replay()
    assert ranges(found) == [("001", ("a",)), ("002", ("b",)), ("003", ("late",))]
    assert (found.gone, found.gone_until, found.whole) == ((), "", frozenset({"001", "002", "003"}))


def test_a_commit_that_does_not_name_all_its_files_is_known_by_its_position() -> None:
    landing = filled("a")
    landing.put(*(file(name, 3) for name in "bcde"))
    landing.take(*"bcde", named=2)
    landing.put(file("f", 4))
    landing.take("f")
    assert ranges(landing.replay()) == [("001", ("a",)), ("002", tuple("bcde")), ("003", ("f",))]
    del landing.files["b"], landing.files["e"]
    found = landing.replay()
    assert ranges(found) == [("001", ("a",)), ("002", ("c", "d")), ("003", ("f",))]
    assert (found.gone, found.gone_until) == (("2 files: b, ...",), "002")
    # What an older commit had is not told from the rest of it where that one is not known.
    assert ranges(landing.replay(newest=2))[0] == ("", ("a",))


def test_a_file_that_left_and_came_back_was_taken_in_twice() -> None:
    landing = filled("ab")
    away = landing.files.pop("a")
    for at, name in ((3, "c"), (4, "d")):
        landing.put(file(name, at))
        landing.take(name)
    landing.put(away)
    landing.take("a")
    names = [name for _, names in ranges(landing.replay()) for name in names]
    assert names == ["a", "b", "c", "d", "a"]
    joined = landing.replay().joined
    found = [item.range for item in landing.replay().ranges]
    together = joined(found[:-1])
    assert together is not None and together.names == ("a", "b", "c", "d")
    assert joined(found) is None


def test_a_replaced_file_is_not_the_one_that_was_taken_in() -> None:
    landing = filled("ab")
    landing.put(file("a", 5))
    waiting = landing.replay()
    assert ranges(waiting) == [("002", ("b",))]
    assert waiting.gone == ("1 file, 1 of them replaced: a",)
    landing.take("a")
    found = landing.replay()
    assert ranges(found) == [("002", ("b",)), ("003", ("a",))]
    assert (found.gone_until, found.whole) == ("001", frozenset({"002", "003"}))


def test_late_files_below_the_floor_are_not_taken_for_those_of_the_table() -> None:
    landing = filled("abcde")
    landing.put(file("x", 9))
    landing.take("x", taken_max=1)
    assert landing.position.floor is not None and landing.position.settled > 2
    landing.put(file("late", 0.5))
    assert landing.position.has_taken(landing.files["late"])
    names = [name for _, names in ranges(landing.replay()) for name in names]
    assert names == [*"abcde", "x"]
    # Where commits are not known any more, nobody can say which of them is the late one.
    found = landing.replay(newest=1)
    assert ranges(found) == [("006", ("x",))]
    assert found.gone == (
        "what was taken in before 006: no commit says what that was",
        "6 files that may have come late",
    )
    del landing.files["late"]
    names = [name for _, names in ranges(landing.replay(newest=1)) for name in names]
    assert names == [*"abcde", "x"]
