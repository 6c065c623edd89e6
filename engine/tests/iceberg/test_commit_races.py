"""A rewrite alongside other writers: no row comes back, goes or doubles, whichever is first.

Another writer does all of its work just before some call of the rewrite's commit, for every third
call, and for every one that writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from tideline.iceberg.commit.replacement import AddedDelete, RewriteFiles
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.metadata_update import SetSnapshotRef
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Conflicted
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import PATH_FIELD_ID, ModelFiles
from tideline.testing.iceberg_row_delta import RowDelta
from tideline.testing.interrupted_store import InterruptedStore
from tideline.testing.stepping_store import Step, SteppingStore

T = TypeVar("T")
HIT, MISSED = 2, 13
"""A row of a rewritten file, and a row of another."""


@dataclass(frozen=True)
class Rival:
    """Another writer's work, what it does to the rows, and whether our rewrite survives it."""

    work: Callable[[IcebergModel], CommitOutcome]
    removes: frozenset[int] = frozenset()
    adds: frozenset[int] = frozenset()
    survives: bool = True


def rewrite_again(model: IcebergModel) -> CommitOutcome:
    return commit(model, model.plan_rewrite(), model.location.open())


def rewrite_others(model: IcebergModel) -> CommitOutcome:
    others = [e.data_file.file_path for e in model.files().data() if e.data_file.spec_id == 1]
    return commit(model, model.plan_rewrite(others), model.location.open())


RIVALS = {
    "append": Rival(lambda m: m.append([50, 51]), adds=frozenset([50, 51])),
    "delete by value": Rival(lambda m: m.delete_by_value([HIT]), removes=frozenset([HIT])),
    "delete by value, all partitions": Rival(
        lambda m: m.delete_by_value([HIT], spec_id=1), removes=frozenset([HIT])
    ),
    "upsert": Rival(lambda m: m.upsert([HIT])),
    "delete by position": Rival(
        lambda m: m.delete_by_position([HIT]), removes=frozenset([HIT]), survives=False
    ),
    "delete by position, file not named": Rival(
        lambda m: m.delete_by_position([HIT], names_file=False),
        removes=frozenset([HIT]),
        survives=False,
    ),
    "delete by position elsewhere": Rival(
        lambda m: m.delete_by_position([MISSED]), removes=frozenset([MISSED])
    ),
    "overwrite": Rival(lambda m: m.overwrite([HIT]), removes=frozenset([HIT]), survives=False),
    "overwrite elsewhere": Rival(lambda m: m.overwrite([MISSED]), removes=frozenset([MISSED])),
    "rewrite": Rival(rewrite_again, survives=False),
    "rewrite of other files": Rival(rewrite_others),
}


def prepared(format_version: int) -> tuple[IcebergModel, RewriteFiles, list[int]]:
    """Rows 0 to 9 by parity, to be rewritten, with deletes; rows 10 to 19 unpartitioned."""
    model = IcebergModel.create(format_version=format_version)
    model.append(range(5))
    model.append(range(5, 10))
    model.append(range(10, 20), spec_id=1)
    model.delete_by_value([7])
    model.delete_by_position([0])
    paths = [e.data_file.file_path for e in model.files().data() if e.data_file.spec_id == 0]
    return model, model.plan_rewrite(paths), model.rows()


def commit(model: IcebergModel, rewrite: RewriteFiles, store: ObjectStore) -> CommitOutcome:
    return commit_rewrite(model.operations(store), rewrite, clock=FakeClock())


CASES = [
    *((2, name) for name in RIVALS),
    *((3, name) for name in RIVALS if name.startswith("delete by position")),
]


@pytest.mark.slow_with(
    "2-append",
    "2-delete by value",
    "2-delete by value, all partitions",
    "2-upsert",
    "2-delete by position",
    "2-delete by position, file not named",
    "2-delete by position elsewhere",
    "2-overwrite",
    "2-overwrite elsewhere",
    "2-rewrite",
    "2-rewrite of other files",
)
@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_rival_commits_before_any_call(version: int, name: str) -> None:
    model, rewrite, rows = prepared(version)
    rival = RIVALS[name]
    expected = sorted({*rows, *rival.adds} - rival.removes)
    rehearsal = interrupted(0, model.copy(), rival.work)
    assert isinstance(commit(model.copy(), rewrite, rehearsal), Committed)
    outcomes: list[bool] = []
    for number in rehearsal.moments(3):
        table = model.copy()
        outcome = commit(table, rewrite, interrupted(number, table, rival.work))
        when = f"{name} before call {number}"
        assert isinstance(outcome, Committed | Conflicted), when
        assert table.rows() == expected, when
        assert table.unreferenced() == set(), when
        outcomes.append(isinstance(outcome, Committed))
    assert outcomes[0] is rival.survives
    # A rival that comes after our own commit finds it done.
    assert outcomes[-1]
    assert len(outcomes) > 5


@pytest.mark.parametrize("name", ["delete by value", "upsert"])
def test_without_the_old_sequence_number_a_delete_by_value_is_a_conflict(name: str) -> None:
    model, _, rows = prepared(2)
    rival = RIVALS[name]
    rewrite = model.plan_rewrite(keeps_sequence_number=False)
    rival.work(model)
    outcome = commit(model, rewrite, model.location.open())
    assert isinstance(outcome, Conflicted)
    assert "deletes rows of the replaced file" in outcome.reason
    assert model.rows() == sorted(set(rows) - rival.removes)


def test_a_delete_by_value_for_all_partitions_is_one_too() -> None:
    model, _, rows = prepared(2)
    rewrite = model.plan_rewrite(keeps_sequence_number=False)
    model.delete_by_value([HIT], spec_id=1)
    assert isinstance(commit(model, rewrite, model.location.open()), Conflicted)
    assert model.rows() == sorted(set(rows) - {HIT})


@pytest.mark.parametrize(("spec_id", "survives"), [(0, False), (1, True)])
def test_a_delete_by_value_does_not_follow_rows_to_another_partitioning(
    spec_id: int, survives: bool
) -> None:
    """Only deletes for all partitions apply to files of every spec."""
    model = IcebergModel.create()
    model.append(range(10))
    planned = model.plan_rewrite()
    elsewhere = tuple(model.files().write_rows(range(10), spec_id=1))
    rewrite = replace(planned, added_data=elsewhere)
    model.delete_by_value([HIT], spec_id=spec_id)
    outcome = commit(model, rewrite, model.location.open())
    assert isinstance(outcome, Committed) is survives
    assert model.rows() == [0, 1, *range(3, 10)]


def test_a_delete_by_value_must_not_reach_rows_that_move_under_it() -> None:
    """It is for a partition that the rows were not filed under when it was written."""
    model = IcebergModel.create()
    model.append(range(10), spec_id=1)
    planned = model.plan_rewrite()
    moved = replace(planned, added_data=tuple(model.files().write_rows(range(10), spec_id=0)))
    model.delete_by_value([HIT], spec_id=0)
    assert model.rows() == list(range(10))
    assert isinstance(commit(model, moved, model.location.open()), Conflicted)
    assert isinstance(commit(model, planned, model.location.open()), Committed)
    assert model.rows() == list(range(10))


def test_a_delete_by_value_that_does_not_outnumber_the_new_files_is_a_conflict() -> None:
    """A writer that gives a delete an old sequence number deletes from the old files alone."""
    model = IcebergModel.create()
    model.append(range(10))
    first = model.metadata().snapshot()
    assert first is not None
    model.append(range(10, 20))
    rewrite = model.plan_rewrite()
    assert rewrite.sequence_number == 2
    model.delete_by_value([HIT])
    (delete,) = model.files().deletes()
    assert delete.sequence_number == 3
    for number in (99, 3):
        late = RewriteFiles(first.snapshot_id, rewrite.removed_data, rewrite.added_data,
                            sequence_number=number)  # fmt: skip
        assert isinstance(commit(model, late, model.location.open()), Conflicted)
    assert isinstance(commit(model, rewrite, model.location.open()), Committed)
    assert model.rows() == [0, 1, *range(3, 20)]


def test_a_position_delete_of_the_same_commit_as_its_file_stays() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.append_and_delete(range(10, 20), [11])
    assert model.rows() == [*range(11), *range(12, 20)]
    old = [e.data_file.file_path for e in model.files().data() if e.sequence_number == 1]
    rewrite = model.plan_rewrite(old)
    assert isinstance(commit(model, rewrite, model.location.open()), Committed)
    assert {e.sequence_number for e in model.files().data()} == {2}
    assert model.rows() == [*range(11), *range(12, 20)]


def test_a_delete_that_is_younger_than_all_other_data_stays() -> None:
    """The new files are older than everything else, but the delete still applies to them."""
    model = IcebergModel.create()
    model.append(range(10))
    rewrite = model.plan_rewrite()
    model.delete_by_value([4])
    model.append(range(10, 20))
    assert isinstance(commit(model, rewrite, model.location.open()), Committed)
    assert model.rows() == [0, 1, 2, 3, *range(5, 20)]
    assert len(model.files().deletes()) == 1


def append_file(model: IcebergModel, name: str, numbers: range) -> DataFile:
    """A data file of this name."""
    files = ModelFiles.of(model.operations().io, model.metadata())
    (file,) = files.write_rows(numbers, 1)
    path = f"{model.location.uri}/data/{name}"
    files.io.write(path, files.io.read(file.file_path))
    named = replace(file, file_path=path)
    model._commit(model.operations(), RowDelta("append", [named]))
    return named


def delete_between(model: IcebergModel, first: str, last: str, hit: DataFile) -> None:
    """A row of a file, by a delete file that names paths from `first` to `last`."""
    files = ModelFiles.of(model.operations().io, model.metadata())
    lower, upper = (f"{model.location.uri}/data/{name}" for name in (first, last))
    delete = replace(
        files._write([[lower, 9], [hit.file_path, 0], [upper, 9]], hit.partition, hit.spec_id),
        content=FileContent.POSITION_DELETES,
        lower_bounds={PATH_FIELD_ID: lower.encode()},
        upper_bounds={PATH_FIELD_ID: upper.encode()},
    )
    model._commit(model.operations(), RowDelta("delete", [delete]))


HALF_WIDTH, EMOJI = "\uff5e.json", "\U0001f600.json"
"""In Java's order of texts the second comes first, in that of their bytes the first."""


@pytest.mark.parametrize(
    ("first", "name", "last", "is_hit"),
    [
        ("k.json", "k.json", "m.json", True),
        ("a.json", "k.json", "k.json", True),
        ("a.json", "k.json", "m.json", True),
        ("l.json", "k.json", "m.json", False),
        ("a.json", "k.json", "b.json", False),
        (EMOJI, HALF_WIDTH, HALF_WIDTH, True),
        (EMOJI, EMOJI, HALF_WIDTH, True),
        ("a.json", "k.json", HALF_WIDTH, True),
        ("l.json", "k.json", HALF_WIDTH, False),
        (HALF_WIDTH, "k.json", HALF_WIDTH, False),
    ],
)
def test_a_position_delete_conflicts_by_the_bounds_of_its_paths(
    first: str, name: str, last: str, is_hit: bool
) -> None:
    model = IcebergModel.create()
    file = append_file(model, name, range(4))
    other = append_file(model, "other.json", range(10, 14))
    rewrite = model.plan_rewrite([file.file_path])
    delete_between(model, first, last, file if is_hit else other)
    outcome = commit(model, rewrite, model.location.open())
    assert isinstance(outcome, Conflicted if is_hit else Committed)
    if is_hit:
        assert model.rows() == [1, 2, 3, *range(10, 14)]


def test_deletes_that_another_rewrite_took_over_are_still_seen() -> None:
    """The newest snapshot's own deletes are not all that came since."""
    model = IcebergModel.create()
    model.append(range(10))
    rewrite = model.plan_rewrite()
    model.delete_by_position([4])
    (delete,) = model.files().deletes()
    old = delete.data_file
    head = model.metadata().snapshot()
    assert head is not None
    body = model.operations().io.read(old.file_path)
    path = old.file_path.replace(".json", "-again.json")
    model.operations().io.write(path, body)
    again = AddedDelete(replace(old, file_path=path), delete.sequence_number)
    moved = RewriteFiles(head.snapshot_id, removed_deletes=(old,), added_deletes=(again,))
    assert isinstance(commit(model, moved, model.location.open()), Committed)
    assert model.rows() == [0, 1, 2, 3, *range(5, 10)]
    assert isinstance(commit(model, rewrite, model.location.open()), Conflicted)
    assert model.rows() == [0, 1, 2, 3, *range(5, 10)]


def test_a_branch_that_went_back_behind_the_rewritten_snapshot_is_a_conflict() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    first = model.metadata().refs["main"]
    model.append(range(10, 20))
    rewrite = model.plan_rewrite()
    operations = model.operations()
    operations.commit(operations.load(), (), (SetSnapshotRef("main", first),))
    outcome = commit(model, rewrite, model.location.open())
    assert isinstance(outcome, Conflicted)
    assert "not an ancestor" in outcome.reason
    assert model.rows() == list(range(10))


def test_attempts_end_when_the_table_never_stands_still() -> None:
    model, rewrite, rows = prepared(2)
    numbers = iter(range(1000, 9999))

    def before(step: Step) -> None:
        if step.method == "put_if_absent":
            model.append([next(numbers)])

    clock = FakeClock()
    store = SteppingStore(model.location.open(), before)
    outcome = commit_rewrite(model.operations(store), rewrite, clock=clock)
    assert isinstance(outcome, Conflicted)
    assert "another writer published" in outcome.reason
    assert model.rows() == [*rows, *range(1000, 1005)]
    assert model.unreferenced() == set()
    waited_s = clock.monotonic_s() - FakeClock().monotonic_s()
    assert 1.5 <= waited_s <= 1.65


@pytest.mark.parametrize("seed", range(6))
def test_writers_at_random(seed: int) -> None:
    life = RandomLife(random.Random(seed), version=2 + seed % 2)
    for _ in range(15):
        life.step()
        assert life.model.rows() == sorted(life.rows), f"seed {seed}: {life.story}"
    assert life.rewritten > 0, life.story
    assert life.model.unreferenced() == set()


@dataclass
class RandomLife:
    """Rewrites that any writer may interrupt, and writers that rewrites may interrupt."""

    chance: random.Random
    version: int
    rows: set[int] = field(default_factory=set)
    next_row: int = 0
    rewritten: int = 0
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        properties = {"commit.manifest.min-count-to-merge": "6"}
        self.model = IcebergModel.create(format_version=self.version, properties=properties)
        self.append(self.model.location.open())

    def step(self, depth: int = 0, *, rewrites_only: bool = False) -> None:
        """Some writer's work, which others may interrupt."""
        if rewrites_only or self.chance.random() < 0.5:
            self.rewrite(depth, rewrites_only)
        else:
            work = (self.append, self.delete, self.delete, self.upsert)
            store = self.interrupted(depth, lambda _: self.step(depth + 1, rewrites_only=True))
            self.chance.choice(work)(store)

    def rewrite(self, depth: int, rewrites_only: bool) -> None:
        paths = self.sample([e.data_file.file_path for e in self.model.files().data()])
        if not paths:
            return
        keeps = self.chance.random() < 0.7
        rewrite = self.model.plan_rewrite(paths, keeps_sequence_number=keeps)

        def interrupt(_: IcebergModel) -> None:
            self.step(depth + 1, rewrites_only=rewrites_only)

        outcome = commit(self.model, rewrite, self.interrupted(depth, interrupt))
        self.rewritten += isinstance(outcome, Committed)
        self.story.append(f"rewrite of {len(paths)} files, {keeps=}: {type(outcome).__name__}")

    def interrupted(self, depth: int, work: Callable[[IcebergModel], object]) -> ObjectStore:
        if depth == 2:
            return self.model.location.open()
        return interrupted(self.chance.randrange(1, 40), self.model, work)

    def append(self, store: ObjectStore) -> None:
        numbers = range(self.next_row, self.next_row + self.chance.randrange(1, 6))
        self.next_row = numbers.stop
        outcome = self.model.append(numbers, store, spec_id=self.chance.randrange(2))
        self.record("append", numbers, outcome, self.rows.update)

    def delete(self, store: ObjectStore) -> None:
        numbers = self.sample(sorted(self.rows))
        way = self.chance.choice(
            (self.model.delete_by_position, self.model.overwrite, self.delete_by_value)
        )
        outcome = way(numbers, store)
        self.record(way.__name__, numbers, outcome, self.rows.difference_update)

    def delete_by_value(self, numbers: list[int], store: ObjectStore) -> CommitOutcome:
        return self.model.delete_by_value(numbers, store, spec_id=1)

    def upsert(self, store: ObjectStore) -> None:
        # Rows by parity only: an upsert of a row that is filed otherwise would double it.
        filed = {
            row
            for entry in self.model.files().data()
            if entry.data_file.spec_id == 0
            for row in self.model.files().visible_rows(entry)
        }
        numbers = self.sample(sorted(filed & self.rows))
        outcome = self.model.upsert(numbers, store)
        self.record("upsert", numbers, outcome, self.rows.update)

    def record(
        self,
        name: str,
        numbers: range | list[int],
        outcome: CommitOutcome,
        apply: Callable[[range | list[int]], None],
    ) -> None:
        self.story.append(f"{name} {list(numbers)} {type(outcome).__name__}")
        if isinstance(outcome, Committed):
            apply(numbers)

    def sample(self, values: list[T]) -> list[T]:
        return self.chance.sample(values, min(len(values), self.chance.randrange(1, 5)))


def interrupted(
    number: int, model: IcebergModel, work: Callable[[IcebergModel], object]
) -> InterruptedStore:
    """The model's store, with another writer's work before the n-th call."""
    return InterruptedStore(model.location.open(), number, lambda: work(model))
